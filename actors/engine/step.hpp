// The outcome of a step, and the function that decides whether its gradients are applied.
#pragma once

#include <functional>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "schedules/record/stage_log.hpp"

namespace pipetrain {

struct StepOutcome {
  std::vector<StageTrace> stages;                   // replica-major
  std::vector<std::vector<DeviceActions>> devices;  // of each stage, by rank; empty where the compute does not measure
  std::vector<schedules::StageLog> logs;            // of each stage with all its parts; empty where the run is not recorded
};

// Receives the result of every stage's N, replica-major, and returns the verdict for all stages. Runs in an actor, so
// it must not block. An exception ends the run.
using Decide = std::function<Verdict(const std::vector<StageResult>&)>;

}  // namespace pipetrain
