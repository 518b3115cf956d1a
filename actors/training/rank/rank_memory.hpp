// Computes the sizes of a rank's allocations from its setup and its model's own measurements.
#pragma once

#include "actors/training/rank/rank_setup.hpp"

namespace pipetrain {

// Returns one lane of a queue's slot, without memory. hidden: StageModel::hidden_shape().
Tensor lane_tensor(const RankSetup& setup, schedules::InputKind kind, int chunk, const Shape& hidden);
std::size_t hidden_bytes(const RankSetup& setup, const Shape& hidden);

// True when an action computes a part of each sequence: a slice, or the part of one of the ranks that share it.
bool computes_parts(const RankSetup& setup);
// Returns the bytes of the documents in StepInputs; 0 where the data does not isolate documents.
std::size_t documents_bytes(const RankSetup& setup);

// True when the rank alternates between the actions of a braid, with a workspace for each.
bool runs_in_turns(const RankSetup& setup);

// Returns the specification of the rank's model.
StageModelSpec model_spec(const RankSetup& setup);

// Estimates the memory of a GPU's operations in addition to the model's workspace.
std::size_t gpu_scratch_estimate(const RankSetup& setup);

// Estimates the memory in which a CPU's compute threads widen 16-bit numbers; 0 in fp32.
std::size_t cpu_scratch_estimate(const RankSetup& setup, unsigned threads);

// Includes the memory of the device's operations.
MemoryUse memory_use(const RankSetup& setup, const StageModel& model);

}  // namespace pipetrain
