// The document boundaries that a rank needs when it computes a part of each sequence. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "model/context/sequence_part.hpp"

namespace pipetrain {

// The documents of the part's tokens of a microbatch, in their order.
struct DocumentStarts {
  std::span<std::int32_t> begins;        // as ForwardArgs::documents: positions in the whole sequence
  std::span<std::int32_t> origins = {};  // as ForwardArgs::origins; empty: not wanted
};
// Fills `to` for a part from the begins of whole sequences of `sequence` tokens; the size of `to` is the part's
// number of tokens.
void split_documents(const SequencePart& part, std::int64_t sequence, std::span<const std::int32_t> begins,
                     const DocumentStarts& to);

}  // namespace pipetrain
