// UTF-8, as JSON, SVG and HTML demand it of text whose bytes a file system or a file gave.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipetrain::schedules {

// Bytes of the character that `text` begins with; 0 where it begins with none (RFC 3629), or is empty.
std::size_t utf8_size(std::string_view text);

// With U+FFFD in place of every byte that belongs to no character.
std::string valid_utf8(std::string_view text);

}  // namespace pipetrain::schedules
