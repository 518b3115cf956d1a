// What a step gives back, and who decides whether its gradients are applied.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "core/error.hpp"
#include "schedules/record/stage_log.hpp"

namespace pipetrain {

struct Failure;

struct StepOutcome {
  std::vector<StageTrace> stages;                   // replica-major
  std::vector<std::vector<DeviceActions>> devices;  // of each stage, by rank; none where the compute does not measure
  std::vector<schedules::StageLog> logs;            // of each stage, its parts together; none where the run is not recorded
};

// Given the results of every stage's N, replica-major: the one verdict for all. Runs in an actor: it must not block. What it
// throws ends the run.
using Decide = std::function<Verdict(const std::vector<StageResult>&)>;

// step() throws this after leave_step(). Nothing has failed: weights and optimizer states are those of the last finished step.
class StepLeft : public Error {
 public:
  StepLeft();
};

// A failure of any actor or worker, after everything has stopped.
class RunFailed : public Error {
 public:
  RunFailed(const Failure& cause, std::vector<std::string> waiting, bool stopped, std::vector<schedules::StageLog> logs = {});
  // One line a stage: what it waited for when the failure was heard.
  const std::vector<std::string>& waiting() const { return waiting_; }
  // False when some stage still had work running after the grace time: its threads cannot be joined.
  bool everything_stopped() const { return stopped_; }
  // Whether the cause is that a process of the run is gone.
  bool process_lost() const { return process_lost_; }
  // When this process noticed the cause.
  std::chrono::steady_clock::time_point noticed() const { return noticed_; }
  // As StepOutcome's, of the step that failed; empty ones of stages that could not tell any more.
  const std::vector<schedules::StageLog>& logs() const { return logs_; }

 private:
  std::vector<std::string> waiting_;
  bool stopped_, process_lost_;
  std::chrono::steady_clock::time_point noticed_;
  std::vector<schedules::StageLog> logs_;
};

}  // namespace pipetrain
