// What a stage exchanges with its data-parallel replicas beside compute, and what of it a step waits for.
#pragma once

#include <vector>

#include "schedules/plan/action.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

// As a run does it (docs/memory.md): the sums of a chunk's gradients travel from the start of its last backward on, chunk after
// chunk, and its R takes what is left of them. New weights leave their owners as O steps them, chunk after chunk, in the step
// before, which is like this one: the chunk's first F takes at least until they are there.
class ReplicaExchanges {
 public:
  // costs: of one stage's chunks. optimizer: the time of its O. sums_beside: whether replicas come to their last backwards in
  // the same order; else R begins the sums.
  ReplicaExchanges(const std::vector<ChunkCost>& costs, double optimizer, bool sums_beside);

  // What an action takes that begins at `start` and computes for `time`. Call it once for each, in the order they run.
  double time_of(const Action& action, double start, double time);

 private:
  struct Chunk {
    double overlapped_reduce, weights_at;
    double backward_start = 0;  // of the last one so far
  };

  std::vector<Chunk> chunks_;
  bool sums_beside_;
  double sums_free_at_ = 0;
};

}  // namespace pipetrain::schedules
