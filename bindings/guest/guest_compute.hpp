// Connects a stage's actor with a guest's code: tracks launches, watches the calls, and runs code that computes and
// returns on other threads, so that no actor waits for it.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "bindings/guest/action_threads.hpp"
#include "bindings/guest/callback_watch.hpp"
#include "bindings/guest/guest_answers.hpp"
#include "bindings/guest/guest_stage.hpp"

namespace pipetrain {

// If the guest runs actions, they run in the order of their launch, and are timed. The destructor waits for a running one.
class GuestCompute : public StageCompute, private ActionThreads::Lane {
 public:
  // any: the threads for guests that do not ask for one of their own.
  GuestCompute(Guest guest, std::shared_ptr<GuestAnswers> stage, std::shared_ptr<CallbackWatch> watch,
               std::shared_ptr<ActionThreads> any);
  ~GuestCompute() override;

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override;
  LaneSources lane_sources() const override { return guest_->lane_sources(); }
  void attach(std::shared_ptr<StageEvents> events) override { stage_->open(std::move(events)); }
  void begin_step(const StepInfo& step) override;
  void launch(const Launch& launch) override;
  void verdict(const Verdict& verdict) override;
  void abort(std::exception_ptr cause) noexcept override;

 private:
  CallbackWatch::Call watched(const char* call, const schedules::Action* action = nullptr) const {
    return {*watch_, {.call = call, .action = action, .stage = &stage_->id()}};
  }
  void act(const Launch& launch) noexcept override;
  void run(const Launch& launch, ActionTimes& times, StageResult& result);

  std::shared_ptr<GuestStage> guest_;
  std::shared_ptr<GuestAnswers> stage_;
  std::shared_ptr<CallbackWatch> watch_;
  std::shared_ptr<ActionThreads> threads_;  // null: the guest launches actions
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, aborted_ = false;
};

}  // namespace pipetrain
