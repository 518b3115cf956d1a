// A tokenizer.model, by the sentencepiece library. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Texts begin with its bos piece where it has one, and end with eos where "add_eos_token" of a tokenizer_config.json beside it
// says so ("add_bos_token": false leaves bos out). Control pieces such as <s> are not found in texts, and a text with a
// token that the files beside name, and that is no piece, is refused. Throws Error(input).
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file);

}  // namespace pipetrain
