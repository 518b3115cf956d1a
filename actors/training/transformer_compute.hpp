// The transformer as a stage's compute: one worker and one RankCompute per tensor-parallel rank. Every rank runs the same
// actions; the stage hears of one when all ranks have enqueued it, and again when all have run it.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "actors/training/rank_compute.hpp"
#include "actors/training/worker.hpp"

namespace pipetrain {

class TransformerCompute : public StageCompute {
 public:
  // One setup per rank. Allocates and loads the state on the workers, all ranks at once; throws the first failure.
  TransformerCompute(std::vector<RankSetup> ranks, const InitialState& state);
  ~TransformerCompute() override;

  // The transformer reads activations and targets until the input gradient, received gradients until the weight gradients.
  static schedules::SlotLife slot_life() { return {schedules::ActionKind::input_grad, schedules::ActionKind::weight_grad}; }

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override;
  LaneSources lane_sources() const override;
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo& step) override;
  void launch(const Launch& launch) override;
  void verdict(const Verdict& verdict) override;
  void abort(std::exception_ptr cause) noexcept override;

  // A step's actions have the times at which they ran on the first rank's device. What completed() told the stage has none: a
  // device's events cannot be read in its callbacks.
  std::vector<DeviceActions> add_times(StageTrace& trace) override;
  std::vector<MemoryUse> memory() const override;
  // part.state: weights_state or one of the optimizer's.
  void read_state(std::int64_t number, const StatePart& part, float* out) override;
  std::size_t state_elements(const StatePart& part) const override;

  // Waits until nothing of any rank touches any memory: see ParallelLayout's devices and groups.
  void wait_until_idle() noexcept;

 private:
  struct Running;

  void on_all_workers(const std::function<void(RankCompute&)>& job);
  void issue(RankCompute& rank, const std::shared_ptr<Running>& running);
  void finished(RankCompute& rank, const std::shared_ptr<Running>& running);

  std::shared_ptr<StageEvents> events_;
  std::vector<std::unique_ptr<RankCompute>> ranks_;
  std::vector<std::unique_ptr<Worker>> workers_;  // after the ranks: they end first
};

}  // namespace pipetrain
