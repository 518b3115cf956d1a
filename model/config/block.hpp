// Blocks: the units that the partition into stages deals out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

// In model order: embedding, then attention and MLP or routed experts of each layer, then the head (final norm, output matrix,
// loss). Where the run trains a further prediction, `mtp` and the two blocks of one more layer come before the head; then `mtp`
// has the final norm, and joins its output with the embeddings of the next tokens.
enum class BlockKind { embedding, attention, mlp, experts, mtp, head };
inline constexpr std::size_t block_kinds = 6;

// True for the blocks that layers consist of, two a layer.
constexpr bool is_of_layer(BlockKind kind) {
  return kind != BlockKind::embedding && kind != BlockKind::mtp && kind != BlockKind::head;
}

struct Block {
  BlockKind kind = BlockKind::attention;
  std::int64_t layer = 0;  // 0 for embedding and head
  bool operator==(const Block&) const = default;
};

// Returns all blocks of the model, in order: 2 x layers + 2, and 3 more with a further prediction.
std::vector<Block> blocks_of(const ModelConfig& config);
// Returns the attention and MLP blocks among them that a cut deals out, two a layer. The blocks of a further prediction go with
// the head.
inline std::int64_t dealt_blocks(const ModelConfig& config) { return 2 * config.layers; }

// One kind of blocks, whose tensors have the same shapes.
struct BlockCount {
  Block block;  // the first of the kind
  std::int64_t blocks = 0;
};
// Returns the kinds of blocks that the model has, in the order of their first blocks.
std::vector<BlockCount> block_counts(const ModelConfig& config);

}  // namespace pipetrain
