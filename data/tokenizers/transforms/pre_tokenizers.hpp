// How a text is split into words: the pre-tokenizers of tokenizer.json. Internal to data/.
#pragma once

#include <memory>
#include <vector>

#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/text/pieces.hpp"

namespace pipetrain {

struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;  // in order: a Sequence in its parts
  bool byte_level = false;  // ByteLevel is the last: words are bytes, which the vocabulary writes as other characters
};

// Throws Error(input) for what is not supported.
PreTokenizers make_pre_tokenizers(const Component& component);

}  // namespace pipetrain
