#include "apps/messages.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace pipetrain {

void print_error(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  print_note("pipetrain: error: " + text);
}

// Not fmt::print(), which throws.
void print_note(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

void print_beside_progress(const std::string& line) { print_note((::isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "") + line); }

}  // namespace pipetrain
