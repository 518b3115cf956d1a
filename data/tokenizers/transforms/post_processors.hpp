// The post-processors of tokenizer.json, which put special tokens around a text. Internal to data/.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizers/text/component.hpp"

namespace pipetrain {

struct SurroundingTokens {
  std::vector<std::int32_t> before, after;
};

// Returns the tokens for a single text. Throws Error(input) for a post-processor that is not supported.
SurroundingTokens make_surrounding_tokens(const Component& component);

}  // namespace pipetrain
