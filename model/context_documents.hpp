// What a rank that has a part of each sequence must know of the documents that share one. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "model/context_part.hpp"

namespace pipetrain {

// Of the rank's tokens of a microbatch, in their order.
struct ContextDocuments {
  std::span<std::int32_t> begins;   // as ForwardArgs::documents: places in the whole sequence
  std::span<std::int32_t> origins;  // as ForwardArgs::origins
};
// Deals the begins of whole sequences of `sequence` tokens; `to` has an Nth of their number for each of N ranks.
void deal_documents(const ContextPart& part, std::int64_t sequence, std::span<const std::int32_t> begins,
                    const ContextDocuments& to);

}  // namespace pipetrain
