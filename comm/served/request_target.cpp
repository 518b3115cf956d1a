#include "comm/served/request_target.hpp"

#include <algorithm>
#include <charconv>

namespace pipetrain {

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && text.size() - i > 2) {
      const char* const digits = text.data() + i + 1;
      if (std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        decoded += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (plain.find(c) != plain.npos) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return encoded;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string query_value(std::string_view target, std::string_view key) {
  const std::size_t question = target.find('?');
  std::string_view query = question == target.npos ? "" : target.substr(question + 1);
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    if (part.starts_with(key) && part.substr(key.size()).starts_with('=')) return percent_decoded(part.substr(key.size() + 1));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
  }
  return "";
}

}  // namespace pipetrain
