// Makes models from the descriptions in a tokenizer.json. Internal to data/.
#pragma once

#include <memory>

#include "data/tokenizers/models/token_model.hpp"
#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/text/tokenizer_file.hpp"

namespace pipetrain {

// `byte_level`: words are bytes. Throws Error(input) for a type that is not supported, and for pieces that are missing.
std::unique_ptr<TokenModel> make_model(const Component& model, const TokenizerFile& file, bool byte_level);

}  // namespace pipetrain
