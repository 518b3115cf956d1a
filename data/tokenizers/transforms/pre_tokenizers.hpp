// The pre-tokenizers of tokenizer.json, which split a text into words. Internal to data/.
#pragma once

#include <memory>
#include <vector>

#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/text/pieces.hpp"

namespace pipetrain {

struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;  // in order: those of a Sequence, or a single one
  bool byte_level = false;  // the last is ByteLevel: words are bytes, which the vocabulary writes as other characters
};

// Throws Error(input) for a pre-tokenizer that is not supported.
PreTokenizers make_pre_tokenizers(const Component& component);

}  // namespace pipetrain
