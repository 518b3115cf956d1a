// A GuestStage is the code of an embedding program that computes for a stage.
#pragma once

#include <cassert>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

// See StageCompute. All methods except abort() are called one at a time; their exceptions end the run.
class GuestStage {
 public:
  virtual ~GuestStage() = default;
  virtual std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) = 0;
  virtual StageCompute::LaneSources lane_sources() const { return {}; }  // where outputs go to other processes
  virtual void begin_step(const StepInfo& step) = 0;
  virtual void verdict(const Verdict& verdict) = 0;
  virtual void abort(const std::string& why) noexcept = 0;

  // Only one of launch() and run() is called, as Guest says. launch() begins the action and returns; it answers
  // GuestAnswers later.
  virtual void launch(const Launch&) { assert(!"this guest runs actions"); }
  // Runs the action, on a thread of ActionThreads; no other method is called meanwhile. Returns the result of N, for
  // others nothing.
  virtual StageResult run(const Launch&) {
    assert(!"this guest launches actions");
    return {};
  }
};

struct Guest {
  std::shared_ptr<GuestStage> stage;
  // How it computes: it launches actions, or runs each on the stage's own thread or on any free one.
  enum class Acts { launches, runs_on_own_thread, runs_on_any_thread } acts = Acts::runs_on_own_thread;
};

}  // namespace pipetrain
