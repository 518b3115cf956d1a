// The steps of a pipeline that several processes run together: process 0 waits until the others have come to a step, and they
// wait for its end.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "actors/engine/pipeline.hpp"
#include "bindings/guest/guest_processes.hpp"
#include "bindings/guest/step_hooks.hpp"
#include "bindings/guest/step_meeting.hpp"

namespace pipetrain {

// One thread at a time calls it; abort() may come from any.
class JointSteps {
 public:
  // stall: how long a process waits for another one to come to a step; 0: without limit.
  JointSteps(std::shared_ptr<GuestProcesses> processes, std::chrono::milliseconds stall)
      : processes_(std::move(processes)), stall_(stall) {}

  bool follows() const { return !processes_->leads(); }
  // Call it when the pipeline is aborted: gather() and follow() then stop waiting for other processes.
  void abort() { aborted_ = true; }

  // Process 0: returns once all others have come to the step. If they do not, it aborts the pipeline with the reason, so that
  // the step, which the caller starts all the same, fails with it.
  void gather(Pipeline& pipeline, const StepCall& call, const StepHooks& hooks);
  // Process 0: sends the others the end of the step.
  void end(const StepCall& call, const StepEnd& end) { processes_->meeting().end(call, end); }
  // The other processes: returns the decision of process 0 at the end of the step. Throws Error, RunFailed.
  StepEnd follow(Pipeline& pipeline, const StepCall& call, const StepHooks& hooks);
  // The other processes: waits, at most as long as a step may stall, until process 0 has closed the pipeline.
  void wait_for_close(Pipeline& pipeline);

 private:
  std::string has_not_come(const StepCall& call) const;
  bool has_ended(Pipeline& pipeline, std::chrono::milliseconds patience);

  std::shared_ptr<GuestProcesses> processes_;
  std::chrono::milliseconds stall_;
  std::atomic<bool> aborted_{false};
  bool over_ = false;  // process 0 has closed the pipeline, or the run has failed
};

}  // namespace pipetrain
