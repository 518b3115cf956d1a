// A compute whose code does an action at once and returns: on a thread of the stage's own, so that no actor waits for it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "actors/engine/stage_compute.hpp"
#include "bindings/host/action_threads.hpp"
#include "bindings/host/callback_watch.hpp"
#include "bindings/host/hosted_stage.hpp"

namespace pipetrain {

// What the code of a stage does. All but abort() are called one at a time: run() on a thread of ActionThreads, the others while
// it does not run. What they throw ends the run.
class BlockingStage {
 public:
  virtual ~BlockingStage() = default;
  virtual std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) = 0;
  virtual StageCompute::LaneSources lane_sources() const { return {}; }  // where outputs go to other processes
  virtual void begin_step(const StepInfo& step) = 0;
  virtual StageResult run(const Launch& launch) = 0;  // the result of N; empty for others
  virtual void verdict(const Verdict& verdict) = 0;
  virtual void abort(const std::string& why) noexcept = 0;
};

// Runs the actions of a BlockingStage in the order of their launch, measures them, and answers. Its destructor waits for an
// action that runs.
class BlockingCompute : public StageCompute, private ActionThreads::Lane {
 public:
  // threads: null for one of the stage's own.
  BlockingCompute(std::shared_ptr<BlockingStage> stage, std::shared_ptr<HostedStage> events,
                  std::shared_ptr<CallbackWatch> watch, std::shared_ptr<ActionThreads> threads = nullptr);
  ~BlockingCompute() override;

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override;
  LaneSources lane_sources() const override { return stage_->lane_sources(); }
  void attach(std::shared_ptr<StageEvents> events) override;
  void begin_step(const StepInfo& step) override;
  void launch(const Launch& launch) override;
  void verdict(const Verdict& verdict) override;
  void abort(std::exception_ptr cause) noexcept override;

 private:
  void act(const Launch& launch) noexcept override;
  void run(const Launch& launch);
  void answer(const schedules::Action& action, const ActionTimes& times, StageResult result);
  template <class Tell>
  void tell(Tell tell) noexcept;

  std::shared_ptr<BlockingStage> stage_;
  std::shared_ptr<HostedStage> events_;
  std::shared_ptr<CallbackWatch> watch_;
  std::shared_ptr<ActionThreads> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, aborted_ = false;
};

}  // namespace pipetrain
