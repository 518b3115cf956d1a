// Which token ends a text. Internal to data/.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// "eos_token" of tokenizer_config.json, else of special_tokens_map.json, in this folder; empty where none names one. Throws
// Error(input) for files that are damaged.
std::string read_end_name(const std::filesystem::path& folder);

// The id of that name, else of a well-known one: <|endoftext|>, <|end_of_text|>, </s>, <|im_end|>, <eos>. Throws Error(input)
// where `name` is given and no piece.
std::optional<std::int32_t> find_end_of_text(const Tokenizer& tokenizer, const std::string& name);

}  // namespace pipetrain
