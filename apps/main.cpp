#include "apps/command_line.hpp"

int main(int argc, char** argv) {
  return pipetrain::run_command_line({argv + 1, argv + argc}, pipetrain::process_environment());
}
