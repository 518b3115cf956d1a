// The routed blocks among a chunk's blocks, and the numbers that each reports.
#pragma once

#include <algorithm>
#include <vector>

#include "model/config/block.hpp"

namespace pipetrain {

inline std::int64_t routed_blocks(const std::vector<Block>& blocks) {
  return std::count_if(blocks.begin(), blocks.end(), [](const Block& block) { return block.kind == BlockKind::experts; });
}
inline std::int64_t routed_blocks(const std::vector<std::vector<Block>>& chunks) {
  std::int64_t sum = 0;
  for (const auto& blocks : chunks) sum += routed_blocks(blocks);
  return sum;
}

// Returns the length of RouteBackwardArgs::statistics.
inline std::int64_t router_statistics(const ModelConfig& config) { return config.experts.count + 3; }

}  // namespace pipetrain
