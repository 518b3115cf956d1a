// Views into a rank's flat arenas, and its tensors by role.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

inline Tensor span(const Tensor& arena, std::size_t begin, std::size_t elements) {
  return arena.row_range(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + elements));
}

// Rounds a number of elements up so that the next range can begin at a tensor's alignment, whatever its type.
inline std::size_t align_elements(std::size_t elements) {
  return align_up(elements * size_of(DType::bf16)) / size_of(DType::bf16);
}

// Returns the rank's first tensor of this role; null if it has none.
inline const StoredTensor* find_tensor(const ParameterLayout& layout, TensorRole role) {
  for (const BlockParameters& block : layout.blocks) {
    if (const StoredTensor* found = block.find(role)) return found;
  }
  return nullptr;
}

}  // namespace pipetrain
