// Escapes for text that quotes files and names, which may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace pipetrain {

// "\n", "\r" or "\t" in two characters, any other byte as "\x1b".
std::string escape_of(char c);
// The text on one line: an escape stands for each control character of ASCII.
std::string escape_controls(std::string_view text);

}  // namespace pipetrain
