// The tokens of each sequence that a rank computes in one action: its part of a slice. Pure.
#pragma once

#include <cstdint>

#include "core/process_group.hpp"
#include "model/context/context_part.hpp"

namespace pipetrain {

// A whole sequence is one slice, and a rank that shares it with no other has all of it.
struct SequencePart {
  ContextPart context = {};  // the rank's part of the slice
  std::int64_t first = 0;    // the position of the slice's first token in the sequence

  bool is_whole() const { return context.is_whole() && first == 0; }
  // Returns the position in the sequence of token number `token` of the `tokens` in this part.
  std::int64_t position(std::int64_t token, std::int64_t tokens) const { return first + context.position(token, tokens); }
  // Returns how many tokens from this one on are contiguous in the sequence.
  std::int64_t run(std::int64_t token, std::int64_t tokens) const {
    if (context.is_whole()) return tokens - token;
    return tokens / 2 - token % (tokens / 2);
  }
};

// The division of a rank's part of every sequence: into slices, the longest ones first, or into one slice that is the
// whole.
struct SequenceSlices {
  ContextPart context = {};
  std::int64_t tokens = 1;  // the rank's tokens of each sequence, in all slices
  int slices = 1;

  RowSplit split() const { return {tokens, slices}; }
  std::int64_t count(int slice) const { return split().count(slice); }
  SequencePart part(int slice) const { return {context, split().begin(slice) * context.size}; }
};

}  // namespace pipetrain
