// A recorded run, as its record is written, read and replayed: its description, then the logs of all stages, step by step.
#pragma once

#include <cstdint>
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
  std::vector<StageNeeds> needs;  // by stage: the reserved resources
  int replicas = 1;
  int parts = 1;  // of a stage whose ranks ran in several processes; each part has its own log
  int run_ahead = 2;
  int membership = 1;           // of the run's processes, counted from 1
  std::vector<int> process_of;  // by log; empty where one process runs all

  int logs() const { return replicas * plan.placement.stages() * parts; }
  // Logs are ordered replica-major, the parts of a stage together.
  int stage_of(int log) const { return log / parts % plan.placement.stages(); }
  int replica_of(int log) const { return log / parts / plan.placement.stages(); }
};

struct RecordedStep {
  std::int64_t step = 0;  // as StepInfo counts
  StepKind kind = StepKind::training;
  bool failed = false;         // the logs show how far each stage got
  std::vector<StageLog> logs;  // one per log of the run; empty for stages that could not send theirs
};

}  // namespace pipetrain::schedules
