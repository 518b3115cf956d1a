// The settings of one stage's actor, and the queues that its chunks read and fill.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/protocol.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/record/recorded_order.hpp"

namespace pipetrain {

struct StageSetup {
  StageId id;
  std::shared_ptr<const schedules::Plan> plan;
  schedules::Order order = schedules::Order::planned;
  schedules::SlotLife slot_life;
  int run_ahead = 2;
  bool begins_before_verdict = true;                         // see PipelineOptions
  bool record = false;                                       // log inputs and decisions
  std::shared_ptr<const schedules::RecordedOrder> replayed;  // see PipelineOptions
  std::shared_ptr<StageCompute> compute;
  caf::actor supervisor;

  struct ChunkQueues {
    caf::actor activations, gradients, targets;       // queues that this chunk consumes from; null where it has none
    caf::actor next_activations, previous_gradients;  // queues that it fills
    // The chunks that consume its outputs where they belong to this stage, else -1: they learn of the input at once, so
    // that the next decision includes it.
    int own_next_chunk = -1, own_previous_chunk = -1;
    bool next_is_elsewhere = false;  // in another process, whose inputs are never taken back
  };
  std::vector<ChunkQueues> chunks;

  // Returns the actions of this step in the recorded order; null: the plan's order counts. Throws Error(input) for a step
  // that was not recorded.
  const std::vector<schedules::Action>* replayed_list(const StepInfo& step) const;
};

}  // namespace pipetrain
