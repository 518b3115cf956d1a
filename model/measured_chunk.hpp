// Learns how much memory a stage's actions need, by running them with operations that compute nothing, in arenas that only
// count.
#pragma once

#include <vector>

#include "model/chunk_passes.hpp"
#include "model/model_chunk.hpp"

namespace pipetrain {

// Returns views without memory for the gradients of a layout's blocks; frozen tensors have no place, as in StageModel::bind().
std::vector<std::vector<Tensor>> measuring_grads(const ParameterLayout& layout, DType dtype);

// Returns the bytes of a microbatch in the chunk, whose blocks are bound to places without memory. spec and tp: of the stage.
ActivationBytes measured_bytes(ChunkPasses& passes, ModelChunk& chunk, const StageModelSpec& spec, const TensorParallel& tp);

// Returns the workspace of the step's end, of whose operations square_sum() needs the most.
std::size_t measured_norm_workspace(const ParameterLayout& layout, const TensorParallel& tp);

}  // namespace pipetrain
