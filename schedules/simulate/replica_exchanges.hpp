// Models a stage's exchanges with its data-parallel replicas, and the part of them that a step waits for.
#pragma once

#include <vector>

#include "schedules/plan/action.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

// As in a run (docs/memory.md): the sums of a chunk's gradients travel from the start of its last backward on, chunk
// after chunk, and its R takes the rest. New weights leave their owners as O steps them, chunk after chunk, in the
// previous step, which is like this one: the chunk's first F cannot end before they have arrived.
class ReplicaExchanges {
 public:
  // costs: of one stage's chunks. optimizer: the time of its O. sums_beside: true where replicas run their last
  // backwards in the same order; otherwise R begins the sums.
  ReplicaExchanges(const std::vector<ChunkCost>& costs, double optimizer, bool sums_beside);

  // Returns the time of an action that begins at `start` and computes for `time`. Call it once for each, in the order
  // in which they run.
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
