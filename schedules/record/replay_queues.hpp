// Tracks the slots of a replayed run's queues.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/record/recording.hpp"

namespace pipetrain::schedules {

// The holder of a microbatch's slot: the producer, the connection, or the consumer.
enum class SlotHolder : std::uint8_t { none, filling, sent, held };

// The state of one queue's slots. A slot without a microbatch is free at the producer or on its way back.
struct QueueState {
  int replica = 0, part = 0;
  int virtual_stage = 0;  // of the consumer
  InputKind kind = InputKind::activation;
  bool fed = false;  // filled by a feeder, whose slots are not recorded
  int free = 0, returning = 0;
  std::vector<SlotHolder> holders;  // by microbatch

  std::vector<int> microbatches(SlotHolder place) const;  // that are there

  void fill(int microbatch);
  void send(int microbatch) { at(microbatch) = SlotHolder::sent; }
  bool arrive(int microbatch);  // false where it was not on its way
  void release(int microbatch);
  bool credit();  // false where no slot is on its way back

 private:
  SlotHolder& at(int microbatch) { return holders[static_cast<std::size_t>(microbatch)]; }
};

// Inline, because a replay spends much of its time here.

inline void QueueState::fill(int microbatch) {
  free = std::max(0, free - 1);
  at(microbatch) = SlotHolder::filling;
}

inline bool QueueState::arrive(int microbatch) {
  if (!fed && at(microbatch) != SlotHolder::sent) return false;
  if (fed) --free;
  at(microbatch) = SlotHolder::held;
  return true;
}

inline void QueueState::release(int microbatch) {
  at(microbatch) = SlotHolder::none;
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
  // The needs must be those of the run's plan, for each of its stages and chunks.
  explicit ReplayQueues(const RecordedRun& run);

  // Returns null where the run has no slots for it. pipeline: replica x parts + part.
  QueueState* find(int pipeline, int virtual_stage, InputKind kind);
  const std::vector<QueueState>& all() const { return queues_; }
  // The signals to a custom action that were sent and not received.
  int& signals(int pipeline, int custom) {
    return signals_[static_cast<std::size_t>(pipeline) * customs_ + static_cast<std::size_t>(custom)];
  }

 private:
  std::size_t virtual_stages_, customs_;
  std::vector<QueueState> queues_;
  std::vector<int> places_;   // indices into queues_, by [pipeline][virtual stage][kind]; -1: none
  std::vector<int> signals_;  // [pipeline][custom action]
};

}  // namespace pipetrain::schedules
