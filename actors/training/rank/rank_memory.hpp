// How large what a rank allocates is, from its setup and its model's own measurements.
#pragma once

#include "actors/training/rank/rank_setup.hpp"

namespace pipetrain {

// One lane of a queue's slot: without memory. hidden: StageModel::hidden_shape().
Tensor lane_tensor(const RankSetup& setup, schedules::InputKind kind, int chunk, const Shape& hidden);
std::size_t hidden_bytes(const RankSetup& setup, const Shape& hidden);

// Whether an action has a part of each sequence: a slice, or what the ranks that share one leave it.
bool computes_parts(const RankSetup& setup);
// Bytes of what StepInputs keeps of documents: 0 where the data does not isolate them.
std::size_t documents_bytes(const RankSetup& setup);

// Whether the rank runs its braids' actions in turns, with a workspace for each.
bool runs_in_turns(const RankSetup& setup);

// What the setup's rank computes.
StageModelSpec model_spec(const RankSetup& setup);

// What the operations of a GPU take for themselves, beside the model's workspace.
std::size_t gpu_scratch_estimate(const RankSetup& setup);

// What the compute threads of a CPU take for numbers of 16 bits that they widen; 0 in fp32.
std::size_t cpu_scratch_estimate(const RankSetup& setup, unsigned threads);

// With what the operations of the setup's device take.
MemoryUse memory_use(const RankSetup& setup, const StageModel& model);

}  // namespace pipetrain
