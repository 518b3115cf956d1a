// Where the slots of a replayed run's queues are.
#pragma once

#include <algorithm>
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

// Inline, because a replay spends much of its time here.

inline bool take_out(std::vector<int>& microbatches, int microbatch) {
  const std::size_t count = microbatches.size();
  std::size_t at = 0;
  while (at < count && microbatches[at] != microbatch) ++at;
  if (at == count) return false;
  for (; at + 1 < count; ++at) microbatches[at] = microbatches[at + 1];
  microbatches.pop_back();
  return true;
}

inline void QueueState::fill(int microbatch) {
  free = std::max(0, free - 1);
  filling.push_back(microbatch);
}

inline void QueueState::send(int microbatch) {
  take_out(filling, microbatch);
  sent.push_back(microbatch);
}

inline bool QueueState::arrive(int microbatch) {
  if (!fed && !take_out(sent, microbatch)) return false;
  if (fed) --free;
  held.push_back(microbatch);
  return true;
}

inline void QueueState::release(int microbatch) {
  take_out(held, microbatch);
  ++(fed ? free : returning);
}

inline bool QueueState::credit() {
  if (returning == 0) return false;
  --returning;
  ++free;
  return true;
}

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
