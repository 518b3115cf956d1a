// The errors that end a step: RunFailed, and StepLeft for a run that was asked to stop.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "schedules/record/stage_log.hpp"

namespace pipetrain {

struct Failure;

// step() throws this after leave_step(). Nothing has failed: weights and optimizer states are those after the last
// finished step.
class StepLeft : public Error {
 public:
  StepLeft();
};

// A failure of any actor or worker. Thrown after everything has stopped.
class RunFailed : public Error {
 public:
  RunFailed(const Failure& cause, std::vector<std::string> waiting, bool stopped, std::vector<schedules::StageLog> logs = {});
  // Returns one line per stage: what it waited for when it received the failure.
  const std::vector<std::string>& waiting() const { return waiting_; }
  // False when some stage still had work running after the grace time: its threads cannot be joined.
  bool everything_stopped() const { return stopped_; }
  bool process_lost() const { return process_lost_; }
  // Returns the time at which this process noticed the cause.
  std::chrono::steady_clock::time_point noticed() const { return noticed_; }
  // Returns the logs of the failed step, as in StepOutcome; empty for stages that could not send theirs.
  const std::vector<schedules::StageLog>& logs() const { return logs_; }

 private:
  std::vector<std::string> waiting_;
  bool stopped_, process_lost_;
  std::chrono::steady_clock::time_point noticed_;
  std::vector<schedules::StageLog> logs_;
};

}  // namespace pipetrain
