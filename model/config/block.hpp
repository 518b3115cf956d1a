// Blocks: the units that the partition into stages deals out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

// In model order: embedding, then attention and MLP or routed experts of each layer, then the head (final norm, output matrix,
// loss).
enum class BlockKind { embedding, attention, mlp, experts, head };
inline constexpr std::size_t block_kinds = 5;

// True for the blocks that layers consist of, two a layer.
constexpr bool is_of_layer(BlockKind kind) { return kind != BlockKind::embedding && kind != BlockKind::head; }

struct Block {
  BlockKind kind = BlockKind::attention;
  std::int64_t layer = 0;  // 0 for embedding and head
  bool operator==(const Block&) const = default;
};

// Returns all blocks of the model, in order: 2 x layers + 2.
std::vector<Block> blocks_of(const ModelConfig& config);

// One kind of blocks, whose tensors have the same shapes.
struct BlockCount {
  Block block;  // the first of the kind
  std::int64_t blocks = 0;
};
// Returns the kinds of blocks that the model has, in the order of their first blocks.
std::vector<BlockCount> block_counts(const ModelConfig& config);

}  // namespace pipetrain
