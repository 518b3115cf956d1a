// Escapes for text that quotes files and names with arbitrary bytes.
#pragma once

#include <string>
#include <string_view>

namespace pipetrain {

// Returns "\n", "\r" or "\t" in two characters, any other byte as "\x1b".
std::string escape_of(char c);
// Returns the text on one line, with an escape for each ASCII control character.
std::string escape_controls(std::string_view text);

}  // namespace pipetrain
