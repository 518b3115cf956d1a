// Where text that no pre-tokenizer splits can be cut before BPE without a change of the result. Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/models/bpe.hpp"
#include "data/tokenizers/text/pieces.hpp"

namespace pipetrain {

// BPE merges neighbours only. Where no rule joins a piece that ends with x to one that begins with a space, nothing is ever
// merged across such a place, and what stands left and right of it can be encoded alone. Spaces are U+2581 where the vocabulary
// has it, else U+0020. Returns null where that cannot be said: where pieces stand for other text than they spell.
std::unique_ptr<PreTokenizer> find_bpe_cuts(const Vocabulary& vocabulary, const BpeOptions& options,
                                            const std::vector<std::pair<std::int32_t, std::int32_t>>& merges);

}  // namespace pipetrain
