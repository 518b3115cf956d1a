#include "schedules/draw/utf8.hpp"

#include <algorithm>

namespace pipetrain::schedules {

std::size_t utf8_size(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second > 0x9f, too_large = first == 0xf4 && second > 0x8f;
  return too_long || surrogate || too_large ? 0 : size;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    valid += size > 0 ? text.substr(0, size) : std::string_view("\xef\xbf\xbd");
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return valid;
}

}  // namespace pipetrain::schedules
