// Bytes as tokens, for rows that need more than a stream of them. Internal to data/.
#pragma once

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Each byte is the id of its value; what ends a text is end_of_document(vocabulary). Throws Error(input) where the vocabulary
// has fewer than 256 ids.
std::unique_ptr<Tokenizer> make_byte_tokenizer(std::int64_t vocabulary);

}  // namespace pipetrain
