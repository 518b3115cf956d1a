// Which special tokens stand around a text: the post-processors of tokenizer.json. Internal to data/.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizers/text/component.hpp"

namespace pipetrain {

struct SurroundingTokens {
  std::vector<std::int32_t> before, after;
};

// For a single text. Throws Error(input) for what is not supported.
SurroundingTokens make_surrounding_tokens(const Component& component);

}  // namespace pipetrain
