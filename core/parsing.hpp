// Reads words of users: numbers, and lists with a separator.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace pipetrain {

// Returns the number that the text is, and no value for other text or a number that the type does not hold. base: of
// integers.
template <class Number>
std::optional<Number> number_from(std::string_view text, auto... base) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

// Returns the parts between the separators, one more than there are separators. They refer to the text.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace pipetrain
