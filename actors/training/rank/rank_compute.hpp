// One rank of one stage: passes each action to the parts of the rank that carry it out. All methods except the
// constructor, make_lane(), add_result() and fail() run on the rank's worker; they only enqueue.
#pragma once

#include <exception>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/ranks/rank_lanes.hpp"
#include "actors/ranks/ranked_compute.hpp"
#include "actors/training/rank/action_clock.hpp"
#include "actors/training/rank/activation_pool.hpp"
#include "actors/training/rank/preference_inputs.hpp"
#include "actors/training/rank/rank_expert_biases.hpp"
#include "actors/training/rank/rank_fault.hpp"
#include "actors/training/rank/rank_model.hpp"
#include "actors/training/rank/rank_reports.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/rank/rank_state.hpp"
#include "actors/training/rank/step_end.hpp"
#include "actors/training/rank/step_inputs.hpp"

namespace pipetrain {

class RankCompute : public ComputeRank {
 public:
  // Allocates all memory. Throws Error(out_of_memory).
  explicit RankCompute(RankSetup setup);
  // Waits for work that is still running after a failure, because memory must outlive it.
  ~RankCompute() override { RankCompute::wait_until_idle(); }

  void wait_until_idle() noexcept override;
  const MemoryUse& memory() const { return memory_; }
  const ParameterLayout& layout() const { return model_->parameters(); }

  RankState& state() { return state_; }
  // Copies the state after this step, and keeps the record of the run's progress, where the setup keeps copies.
  void keep_copy(std::int64_t step, const std::shared_ptr<const std::vector<std::byte>>& record);

  Lane make_lane(schedules::InputKind kind, int chunk) override;

  void begin_step(const StepInfo& step) override;
  void begin_early(const StepInfo& coming) override;
  void set_verdict(const Verdict& verdict) { end_.set_verdict(verdict); }
  void run(const Launch& launch) override;
  void run_braid(const Launch& first, const Launch& second) override;
  // Returns the actions of this step, in the order in which they ran; only after the step. Thread-safe.
  std::vector<DeviceAction> trace() { return clock_.collect(), clock_.actions(); }
  // Adds the report of N: see RankReports.
  void add_result(const schedules::Action& action, StageResult& result) const override {
    if (action.kind == schedules::ActionKind::norm) reports_.add_to(result);
  }
  void fail(std::exception_ptr cause) override;

 private:
  double gradient_scale() const { return step_.loss_scale * step_.gradient_factor; }
  // Returns the factor of the logits' gradient: that of gradients divided by the target tokens of the global batch.
  float logits_scale() const { return static_cast<float>(gradient_scale() / step_.tokens); }
  // The same, divided by the sequences of the global batch.
  float sequence_scale() const { return static_cast<float>(gradient_scale() / step_.sequences); }
  void open_step(const StepInfo& step);
  // Waits for the inputs and returns where the output goes.
  RankLanes::Output begin_launch(const Launch& launch);
  // second: use the operations that a braid's forward has for itself.
  void run_compute(const Launch& launch, const Tensor& output, bool second = false);
  void run_forward(const Launch& launch, const Tensor& output, ActivationSlot& slot, bool second);
  GradientListener listener_of(const schedules::Action& action);
  void run_move(const schedules::Action& action);

  const RankSetup setup_;
  Stream& stream_;  // the computing stream
  RankModel model_;
  MemoryUse memory_;
  RankState state_;
  RankReports reports_;
  StepInputs inputs_;
  PreferenceInputs preferences_;
  RankExpertBiases biases_;
  ActivationPool activations_;
  RankLanes lanes_;
  ActionClock clock_;
  RankFault fault_;
  StepEnd end_;
  StepInfo step_;             // the step whose forwards and backwards are being launched
  bool begun_early_ = false;  // step_ follows the running one
};

}  // namespace pipetrain
