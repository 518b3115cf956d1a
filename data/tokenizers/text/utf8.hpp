// UTF-8 text, code point by code point. Internal to data/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipetrain {

// Returns the code point at `at`, and moves `at` after it. The text must be valid and not end before `at`.
inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t first = byte(at++);
  if (first < 0x80) return first;
  const int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  char32_t code = first & (0x3FU >> more);
  for (int i = 0; i < more; ++i) code = code << 6 | (byte(at++) & 0x3F);
  return code;
}

// Returns the number of bytes of the character that begins with this byte of valid text.
inline std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append_utf8(char32_t code, std::string& text);
std::string to_utf8(char32_t code);

// Returns the text itself if it is valid UTF-8; else `buffer`, which receives a copy with U+FFFD for each longest part
// that could begin a character but does not continue as one (the Unicode Standard, chapter 3.9, "Substitution of
// Maximal Subparts"; Python's errors="replace" does the same).
std::string_view valid_utf8_or_replaced(std::string_view text, std::string& buffer);

}  // namespace pipetrain
