// Makes the compute of a block of any kind.
#pragma once

#include <memory>
#include <optional>

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

// Makes the block of these parameters on this rank. loss_chunks: see ChunkedHeadBlock; if it is empty, the head
// keeps its logits.
std::unique_ptr<BlockCompute> make_block(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp,
                                         std::optional<int> loss_chunks = {});

}  // namespace pipetrain
