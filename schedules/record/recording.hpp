// A recorded run as its record is written, read and replayed: what it ran, then, step by step, the logs of all stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/plan_needs.hpp"
#include "schedules/protocol/stage_protocol.hpp"
#include "schedules/record/stage_log.hpp"

namespace pipetrain::schedules {

struct RecordedRun {
  Plan plan;
  Order order = Order::planned;
  SlotLife life;
  std::vector<StageNeeds> needs;  // by stage: what the run reserved
  int replicas = 1;
  int parts = 1;  // of a stage whose ranks ran in several processes; each has a log of its own
  int run_ahead = 2;

  int logs() const { return replicas * plan.placement.stages() * parts; }
  // Of the log with this index: replica-major, a stage's parts together.
  int stage_of(int log) const { return log / parts % plan.placement.stages(); }
  int replica_of(int log) const { return log / parts / plan.placement.stages(); }
};

struct RecordedStep {
  std::int64_t step = 0;  // as StepInfo counts
  StepKind kind = StepKind::training;
  bool failed = false;         // it came to no end: the logs say how far each stage got
  std::vector<StageLog> logs;  // one per log of the run; empty ones where a stage could not tell
};

}  // namespace pipetrain::schedules
