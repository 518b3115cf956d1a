#include "data/tokenizers/text/base64.hpp"

#include <array>
#include <cstdint>

namespace pipetrain {
namespace {

constexpr std::uint8_t no_digit = 64;

constexpr std::array<std::uint8_t, 256> make_digits() {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(no_digit);
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < letters.size(); ++i)
    digits[static_cast<unsigned char>(letters[i])] = static_cast<std::uint8_t>(i);
  return digits;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  static constexpr std::array<std::uint8_t, 256> digits = make_digits();
  if (text.size() % 4 != 0) return {};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int count = 0;  // the bits in `bits` that are not yet a byte
  for (const char letter : text.substr(0, text.size() - padding)) {
    const std::uint8_t digit = digits[static_cast<unsigned char>(letter)];
    if (digit == no_digit) return {};
    bits = bits << 6 | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
    bits &= (1U << count) - 1;
  }
  return bits == 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace pipetrain
