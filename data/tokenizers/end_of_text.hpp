// Finds the token that ends a text. Internal to data/.
#pragma once

#include <optional>
#include <string>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Returns the id of the token that "eos_token" names, else of a well-known one: <|endoftext|>, <|end_of_text|>, </s>,
// <|im_end|>, <eos>.
std::optional<std::int32_t> find_end_of_text(const Tokenizer& tokenizer, const std::string& name);

}  // namespace pipetrain
