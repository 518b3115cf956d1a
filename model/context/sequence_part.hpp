// Which tokens of each sequence a rank computes in one action: its part of a slice. Pure.
#pragma once

#include <cstdint>

#include "core/process_group.hpp"
#include "model/context/context_part.hpp"

namespace pipetrain {

// A sequence that passes whole is one slice, and a rank that shares it with none has all of it.
struct SequencePart {
  ContextPart context = {};  // of the slice
  std::int64_t first = 0;    // the position of the slice's first token in the sequence

  bool is_whole() const { return context.is_whole() && first == 0; }
  // Where the token of this number, of `tokens` that there are of the sequence, stands in it.
  std::int64_t position(std::int64_t token, std::int64_t tokens) const { return first + context.position(token, tokens); }
  // How many tokens from this one on stand one behind the other in the sequence.
  std::int64_t run(std::int64_t token, std::int64_t tokens) const {
    if (context.is_whole()) return tokens - token;
    return tokens / 2 - token % (tokens / 2);
  }
};

// How a rank's part of every sequence passes: in slices, the longest ones first, or whole, as one slice.
struct SequenceSlices {
  ContextPart context = {};
  std::int64_t tokens = 1;  // of each sequence that the rank has, in all slices
  int slices = 1;

  RowSplit split() const { return {tokens, slices}; }
  std::int64_t count(int slice) const { return split().count(slice); }
  SequencePart part(int slice) const { return {context, split().begin(slice) * context.size}; }
};

}  // namespace pipetrain
