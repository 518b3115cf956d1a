#include "data/tokenizers/transforms/byte_level.hpp"

#include <array>

#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

constexpr bool is_printable(unsigned byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

struct Table {
  std::array<char32_t, 256> characters{};
  std::array<std::int16_t, 324> bytes{};  // by character; -1: none

  constexpr Table() {
    bytes.fill(-1);
    char32_t next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t code = is_printable(byte) ? byte : next++;
      characters[byte] = code;
      bytes[code] = static_cast<std::int16_t>(byte);
    }
  }
};
constexpr Table byte_table;

}  // namespace

char32_t character_of_byte(std::uint8_t byte) { return byte_table.characters[byte]; }

std::optional<std::uint8_t> byte_of_character(char32_t code) {
  if (code >= byte_table.bytes.size() || byte_table.bytes[code] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(byte_table.bytes[code]);
}

std::optional<std::string> bytes_of_piece(std::string_view piece) {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const auto byte = byte_of_character(next_code_point(piece, at));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

std::string piece_of_bytes(std::string_view bytes) {
  std::string piece;
  for (const char byte : bytes) append_utf8(character_of_byte(static_cast<std::uint8_t>(byte)), piece);
  return piece;
}

}  // namespace pipetrain
