#include "apps/command_line.hpp"
#include "apps/signals/inherited_signals.hpp"

namespace {

// The dynamic linker calls this entry before the constructors of libraries. Only a program can have one: a shared library,
// such as the Python module, cannot be linked with it.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = pipetrain::remember_inherited_signals;

}  // namespace

int main(int argc, char** argv) {
  return pipetrain::run_command_line({argv + 1, argv + argc}, pipetrain::process_environment());
}
