// Blocks: the units that the partition into stages deals out.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

// In model order: embedding, then attention and MLP of each layer, then the head (final norm, output matrix, loss).
enum class BlockKind { embedding, attention, mlp, head };

struct Block {
  BlockKind kind = BlockKind::attention;
  std::int64_t layer = 0;  // 0 for embedding and head
  bool operator==(const Block&) const = default;
};

// Returns all blocks of the model, in order: 2 x layers + 2.
std::vector<Block> blocks_of(const ModelConfig& config);

}  // namespace pipetrain
