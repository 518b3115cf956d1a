// Stands between a stage's actor and a compute of somebody else: keeps the account of what was launched, watches the calls, and
// takes the pipeline's answers to the stage that the compute knows.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "bindings/host/callback_watch.hpp"
#include "bindings/host/hosted_stage.hpp"

namespace pipetrain {

class HostedCompute : public StageCompute {
 public:
  HostedCompute(std::shared_ptr<StageCompute> compute, std::shared_ptr<HostedStage> stage,
                std::shared_ptr<CallbackWatch> watch);

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override;
  LaneSources lane_sources() const override { return compute_->lane_sources(); }
  void attach(std::shared_ptr<StageEvents> events) override;
  void begin_step(const StepInfo& step) override;
  void launch(const Launch& launch) override;
  void verdict(const Verdict& verdict) override;
  void abort(std::exception_ptr cause) noexcept override;

 private:
  CallbackWatch::Call watched(const char* call, const schedules::Action* action = nullptr) const {
    return {*watch_, {.call = call, .action = action, .stage = &stage_->id()}};
  }

  std::shared_ptr<StageCompute> compute_;
  std::shared_ptr<HostedStage> stage_;
  std::shared_ptr<CallbackWatch> watch_;
};

// The line of what was thrown.
std::string text_of(const std::exception_ptr& cause);

}  // namespace pipetrain
