// What the program says on stderr. Nothing is left to do where that cannot be written: a lost line fails nothing. None of these
// keeps a run that was asked to stop (apps/signals/signals.hpp): where nobody reads stderr, text is dropped two seconds later.
#pragma once

#include <string>
#include <string_view>

#include "core/error.hpp"

namespace pipetrain {

// The text as one line for a person: control characters and bytes that are not UTF-8 as escapes (\n, \x1b), and in place of
// what is longer than anybody reads, the middle of words of more than 200 characters and of lines of more than 1000, "...".
std::string one_line(std::string_view text);

// UTF-8 with "..." for its middle where it has more than `most` characters.
std::string shortened(std::string_view text, std::size_t most);

// The contract's one line, whatever the text holds; pipetrain launch gets it instead, where it has started this process.
void print_error(std::string_view text, ErrorKind kind = ErrorKind::internal);

// What lines begin with from now on, so that those of several processes can be told apart: "[rank 1] ". Before other threads
// print.
void set_line_begin(std::string begin);

void print_note(std::string_view line);

// From another thread than the progress line's, which the next step draws anew. Never waits.
void print_beside_progress(std::string_view line);

// As it is.
void write_to_stderr(std::string_view text);

}  // namespace pipetrain
