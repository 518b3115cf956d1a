// Prints the program's messages on stderr. A message that cannot be written is dropped, and no command fails for it.
// None of these functions delays a run that was asked to stop (apps/signals/signals.hpp): if nobody reads stderr, text
// is dropped after two seconds.
#pragma once

#include <string>
#include <string_view>

#include "core/error_kind.hpp"

namespace pipetrain {

// Returns the text as one line for a person: control characters and bytes that are not UTF-8 become escapes (\n, \x1b),
// and "..." replaces the middle of words of more than 200 characters and of lines of more than 1000.
std::string one_line(std::string_view text);

// Returns UTF-8 with "..." for its middle if it has more than `most` characters.
std::string shortened(std::string_view text, std::size_t most);

// Prints the documented line for an error, whatever the text holds; if pipetrain launch has started this process,
// launch gets it instead.
void print_error(std::string_view text, ErrorKind kind = ErrorKind::internal);

// Sets the beginning of all further lines, such as "[rank 1] ", which distinguishes the lines of several processes. Call it
// before other threads print.
void set_line_begin(std::string begin);

void print_note(std::string_view line);

// Prints from threads other than that of the progress line, which the next step redraws. Never waits.
void print_over_progress(std::string_view line);

// Writes the text unchanged.
void write_to_stderr(std::string_view text);

}  // namespace pipetrain
