// Which blocks of a chunk compute again how much, where a run recomputes some of its layers only.
#pragma once

#include <vector>

#include "model/config/block.hpp"
#include "model/config/numerics.hpp"

namespace pipetrain {

// The kind of recomputation of blocks that are not among those of Numerics::recompute_layers: the next kind that computes less.
constexpr Recompute lighter(Recompute kind) { return kind == Recompute::full ? Recompute::selective : Recompute::none; }

// By block of the chunk. Embedding and head are of no layer. slices: of each microbatch's sequence.
std::vector<Recompute> recompute_of_blocks(const std::vector<Block>& chunk, const Numerics& numerics, int slices = 1);

}  // namespace pipetrain
