// What a rank that computes a part of each sequence must know of the documents that share one. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "model/context/sequence_part.hpp"

namespace pipetrain {

// Of the part's tokens of a microbatch, in their order.
struct DocumentPlaces {
  std::span<std::int32_t> begins;        // as ForwardArgs::documents: places in the whole sequence
  std::span<std::int32_t> origins = {};  // as ForwardArgs::origins; empty: not wanted
};
// Deals the begins of whole sequences of `sequence` tokens to a part, of which `to` says how many tokens it has of them all.
void deal_documents(const SequencePart& part, std::int64_t sequence, std::span<const std::int32_t> begins,
                    const DocumentPlaces& to);

}  // namespace pipetrain
