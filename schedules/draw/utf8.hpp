// Makes valid UTF-8, which JSON, SVG and HTML require, of text with arbitrary bytes from a file system or a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipetrain::schedules {

// Returns the bytes of the first character of `text`; 0 where it is not valid (RFC 3629) or `text` is empty.
std::size_t utf8_size(std::string_view text);

// Replaces every byte that belongs to no character by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace pipetrain::schedules
