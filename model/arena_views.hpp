// Views into a rank's flat arenas, and its blocks by kind. Internal to model/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.hpp"
#include "model/parameters.hpp"

namespace pipetrain {

inline Tensor span(const Tensor& arena, std::size_t begin, std::size_t elements) {
  return arena.row_range(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + elements));
}

// The rank's block of this kind; null where it has none.
inline const BlockParameters* find_block(const ParameterLayout& layout, BlockKind kind) {
  for (const BlockParameters& block : layout.blocks) {
    if (block.block.kind == kind) return &block;
  }
  return nullptr;
}

}  // namespace pipetrain
