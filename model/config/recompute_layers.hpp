// The recomputation mode of each block of a chunk, for runs that recompute only some of their layers.
#pragma once

#include <vector>

#include "model/config/block.hpp"
#include "model/config/numerics.hpp"

namespace pipetrain {

// The kind of recomputation of blocks that are not among those of Numerics::recompute_layers: the next kind that computes less.
constexpr Recompute lighter(Recompute kind) { return kind == Recompute::full ? Recompute::selective : Recompute::none; }

// Returns the mode of each block of the chunk. Embedding and head belong to no layer. `slices` is the number of slices of each
// microbatch's sequences.
std::vector<Recompute> recompute_of_blocks(const std::vector<Block>& chunk, const Numerics& numerics, int slices = 1);

}  // namespace pipetrain
