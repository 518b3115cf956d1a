// A tokenizer whose tokens are bytes, for rows that need more than a stream of them. Internal to data/.
#pragma once

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Each byte's id is its value; a text ends with end_of_document(vocabulary). Throws Error(input) if the vocabulary has
// fewer than 256 ids.
std::unique_ptr<Tokenizer> make_byte_tokenizer(std::int64_t vocabulary);

}  // namespace pipetrain
