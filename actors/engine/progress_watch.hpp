// Finds steps in which nothing happens any more: looks at all stages at intervals, and judges what they answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "actors/engine/stage_questions.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// The supervisor asks the stages and reports the failures; it is used on its thread alone. The roster is the supervisor's.
class ProgressWatch {
 public:
  // stall: the time between two looks; 0: there are none.
  ProgressWatch(const StageRoster& stages, schedules::Placement placement, std::chrono::milliseconds stall)
      : stages_(stages), placement_(std::move(placement)), stall_(stall) {}

  std::chrono::milliseconds stall() const { return stall_; }
  int series() const { return series_; }  // of looks; answers to an older series do not count
  // The run was asked to stop. A new series, with at most this time between its looks, begins from the actions completed by
  // now.
  void finish(std::chrono::milliseconds patience);
  // Returns the failure of a step in which no action has completed since the look before.
  std::optional<Failure> judge(const WaitingReport& report, bool in_step);
  // Returns the failure of stages that have not answered a look until the next one.
  Failure silence(const WaitingReport& report) const;

 private:
  std::string hanging_workers(const WaitingReport& report) const;

  const StageRoster& stages_;
  schedules::Placement placement_;  // of the chunks on stages
  std::chrono::milliseconds stall_;
  int series_ = 0;
  bool finishing_ = false;
  std::int64_t completed_seen_ = -1;  // actions of all stages at the last look; -1: between steps
};

}  // namespace pipetrain
