// What the program says on stderr. Nothing is left to do where that cannot be written: a lost line fails nothing.
#pragma once

#include <string>

namespace pipetrain {

// The contract's one line, whatever the text holds.
void print_error(std::string text);

void print_note(const std::string& line);

// From another thread than the progress line's, which the next step draws anew.
void print_beside_progress(const std::string& line);

}  // namespace pipetrain
