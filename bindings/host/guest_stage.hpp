// A GuestStage is the code of an embedding program that computes for a stage.
#pragma once

#include <cassert>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

// As StageCompute. All but abort() are called one at a time; what they throw ends the run.
class GuestStage {
 public:
  virtual ~GuestStage() = default;
  virtual std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) = 0;
  virtual StageCompute::LaneSources lane_sources() const { return {}; }  // where outputs go to other processes
  virtual void begin_step(const StepInfo& step) = 0;
  virtual void verdict(const Verdict& verdict) = 0;
  virtual void abort(const std::string& why) noexcept = 0;

  // One of the following is called: which, Guest says. launch() begins the action and returns; HostedStage hears of it later.
  virtual void launch(const Launch&) { assert(!"this guest runs actions"); }
  // Does the action, on a thread of ActionThreads; the others are not called meanwhile. Gives the result of N, for others none.
  virtual StageResult run(const Launch&) {
    assert(!"this guest launches actions");
    return {};
  }
};

struct Guest {
  std::shared_ptr<GuestStage> stage;
  // Tells whether it launches actions; else it runs them, each on the stage's own thread or on any that is free.
  enum class Acts { launches, runs_on_own_thread, runs_on_any_thread } acts = Acts::runs_on_own_thread;
};

}  // namespace pipetrain
