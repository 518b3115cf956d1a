// Opens a tokenizer.model with the sentencepiece library. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Texts begin with the model's bos piece if it has one, and end with eos if "add_eos_token" of a tokenizer_config.json
// next to it says so ("add_bos_token": false leaves bos out). Control pieces such as <s> are not found in texts. A text
// is refused if it has a token that the files next to the model name but the model lacks. Throws Error(input).
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file);

}  // namespace pipetrain
