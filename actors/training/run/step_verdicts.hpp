// Decides at the end of a step whether the optimizer applies it, and by which factor it scales the gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/run/step_results.hpp"
#include "model/optimizer/loss_scale.hpp"
#include "model/optimizer/variance_warm_up.hpp"

namespace pipetrain {

struct StepReport;

class StepVerdicts {
 public:
  // The job must outlive this.
  StepVerdicts(const ParallelLayout& layout, const TrainJob& job);

  const StepResults& results() const { return results_; }
  double loss_scale() const { return loss_scale_.value(); }  // of the coming step
  void set_variance(StepInfo& info) const;                   // of the coming step, for gradients in 1 bit
  // Returns the state that a checkpoint keeps; no value where the scale is constant.
  std::optional<LossScaleState> loss_scale_state() const;
  // The same for gradients in 1 bit; no value without them.
  std::optional<VarianceState> variance_state() const;
  // Goes back to earlier states of both.
  void restore(const std::optional<LossScaleState>& state, const std::optional<VarianceState>& variance);

  // results: of all stages. `report` must have the step's number and its counted labels; this adds loss, norm, loss scale and
  // whether the step is skipped. applied: the steps that were applied before this one. Throws Error(numeric) for a loss or a
  // norm that is not finite, unless the loss scale can fall.
  Verdict decide(const std::vector<StageResult>& results, const StepInfo& info, std::int64_t applied, StepReport& report);

 private:
  Verdict skip_without_labels(StepReport& report) const;
  void add_loss(const std::vector<StageResult>& results, const StepInfo& info, StepReport& report) const;
  void add_routing(const std::vector<StageResult>& results, double sequences, StepReport& report) const;
  void lower_loss_scale(const StepInfo& info);

  const TrainJob& job_;
  StepResults results_;
  LossScale loss_scale_;
  std::optional<VarianceWarmUp> variance_;  // of gradients in 1 bit
};

}  // namespace pipetrain
