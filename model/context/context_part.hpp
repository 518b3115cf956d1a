// Context parallelism: the ranks of a group have the same weights and share every sequence. Each computes its own tokens in
// everything but attention, where keys and values of all go round (ring_attention.hpp). Pure.
#pragma once

#include <cstdint>

namespace pipetrain {

// The tokens of each sequence that one rank has. A sequence is cut into 2 x size equal chunks, of which rank r
// has the r-th from the front and then the r-th from the back: in causal attention all ranks then have equal
// work (zigzag; Grattafiori et al. 2024, "The Llama 3 Herd of Models", section 3.3.2).
struct ContextPart {
  int rank = 0, size = 1;

  bool is_whole() const { return size == 1; }
  // The sequence's chunk that is this rank's first (half 0) or second (half 1).
  int chunk(int half) const { return half == 0 ? rank : 2 * size - 1 - rank; }
  // Returns the position in the sequence of the rank's token `token`, of the `tokens` that it has.
  std::int64_t position(std::int64_t token, std::int64_t tokens) const {
    if (is_whole()) return token;
    const std::int64_t length = tokens / 2;
    return chunk(token < length ? 0 : 1) * length + token % length;
  }
  bool operator==(const ContextPart&) const = default;
};

}  // namespace pipetrain
