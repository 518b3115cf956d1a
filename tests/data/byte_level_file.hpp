// A tokenizer.json whose pieces are the bytes: the ids of a text are its bytes, and added tokens begin at 256.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/tokenizers/text/utf8.hpp"
#include "data/tokenizers/transforms/byte_level.hpp"

namespace pipetrain::test {

// Returns {"Ā": 0, "ā": 1, ...}.
inline std::string byte_vocabulary() {
  std::string text;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string piece = to_utf8(character_of_byte(static_cast<std::uint8_t>(byte)));
    text += text.empty() ? "{" : ", ";
    text += "\"" + (piece == "\"" || piece == "\\" ? "\\" + piece : piece) + "\": " + std::to_string(byte);
  }
  return text + "}";
}

// Returns a special token of a tokenizer.json.
inline std::string special_token(int id, std::string_view content) {
  return "{\"id\": " + std::to_string(id) + ", \"content\": \"" + std::string(content) +
         R"(", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
}

// Has <|im_start|> as 256 and <|im_end|> as 257; `further` are more members.
inline std::string byte_level_file(const std::string& further = "",
                                   const std::string& added = special_token(256, "<|im_start|>") + ", " +
                                                              special_token(257, "<|im_end|>")) {
  return R"({"version": "1.0", "added_tokens": [)" + added + "], " + further +
         R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},)"
         R"("decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": )" +
         byte_vocabulary() + R"(, "merges": []}})";
}

}  // namespace pipetrain::test
