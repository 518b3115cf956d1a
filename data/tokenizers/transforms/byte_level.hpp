// The characters by which byte-level vocabularies write bytes, as GPT-2's encoder.py gives them: printable bytes of Latin-1
// stand for themselves, the other 68 are U+0100 and on, in their order. Internal to data/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

char32_t character_of_byte(std::uint8_t byte);
std::optional<std::uint8_t> byte_of_character(char32_t code);

// The bytes that a piece stands for; nothing where a character stands for none. `piece` is valid UTF-8.
std::optional<std::string> bytes_of_piece(std::string_view piece);
// The piece that stands for them.
std::string piece_of_bytes(std::string_view bytes);

}  // namespace pipetrain
