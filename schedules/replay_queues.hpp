// Where the slots of a replayed run's queues are.
#pragma once

#include <vector>

#include "schedules/recording.hpp"

namespace pipetrain::schedules {

// Where the slots of one queue are. A slot is free at the producer, being filled by it, on its way, held by the consumer, or on
// its way back.
struct QueueState {
  int replica = 0, part = 0;
  int virtual_stage = 0;  // that consumes
  InputKind kind = InputKind::activation;
  bool fed = false;  // by a feeder, whose slots nobody records
  int free = 0, returning = 0;
  std::vector<int> filling, sent, held;  // microbatches

  void fill(int microbatch);
  void send(int microbatch);
  bool arrive(int microbatch);  // false where it was not on its way
  void release(int microbatch);
  bool credit();  // false where no slot is on its way back
};

class ReplayQueues {
 public:
  // The needs must be those of the run's plan: of each of its stages and chunks.
  explicit ReplayQueues(const RecordedRun& run);

  // Null where the run has no slots for it. pipeline: replica x parts + part.
  QueueState* find(int pipeline, int virtual_stage, InputKind kind);
  const std::vector<QueueState>& all() const { return queues_; }

 private:
  std::size_t virtual_stages_;
  std::vector<QueueState> queues_;
  std::vector<int> places_;  // in queues_, by [pipeline][virtual stage][kind]; -1: none
};

}  // namespace pipetrain::schedules
