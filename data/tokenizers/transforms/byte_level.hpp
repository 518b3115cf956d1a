// The characters with which byte-level vocabularies write bytes, as GPT-2's encoder.py defines them: printable bytes of
// Latin-1 are written as themselves, and the other 68 as U+0100 and following, in order. Internal to data/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

char32_t character_of_byte(std::uint8_t byte);
std::optional<std::uint8_t> byte_of_character(char32_t code);

// Returns the bytes that a piece stands for; nothing if a character stands for no byte. `piece` is valid UTF-8.
std::optional<std::string> bytes_of_piece(std::string_view piece);
// Returns the piece that stands for these bytes.
std::string piece_of_bytes(std::string_view bytes);

}  // namespace pipetrain
