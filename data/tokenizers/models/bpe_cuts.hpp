// Finds where text that no pre-tokenizer splits can be cut before BPE without changing the result. Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "data/tokenizers/models/bpe.hpp"
#include "data/tokenizers/text/pieces.hpp"

namespace pipetrain {

// BPE merges adjacent pieces only. If no rule merges a piece that ends with x with one that begins with a space,
// nothing is ever merged across such a position, and the text to its left and right can be encoded separately. Spaces
// are U+2581 if the vocabulary has it, else U+0020. Returns null if that cannot be decided because pieces stand for
// other text than they spell.
std::unique_ptr<PreTokenizer> find_bpe_cuts(const Vocabulary& vocabulary, const BpeOptions& options,
                                            const std::vector<std::pair<std::int32_t, std::int32_t>>& merges);

}  // namespace pipetrain
