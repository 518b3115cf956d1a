// Decides at the end of a step whether the optimizer applies it, and by which factor it scales the gradients.
#pragma once

#include <optional>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/run/step_results.hpp"
#include "model/optimizer/loss_scale.hpp"

namespace pipetrain {

struct StepReport;

class StepVerdicts {
 public:
  // The job must outlive this.
  StepVerdicts(const ParallelLayout& layout, const TrainJob& job);

  const StepResults& results() const { return results_; }
  double loss_scale() const { return loss_scale_.value(); }  // of the coming step
  // Returns the state that a checkpoint keeps; no value where the scale is constant.
  std::optional<LossScaleState> loss_scale_state() const;
  // Goes back to an earlier loss_scale_state().
  void restore(const std::optional<LossScaleState>& state);

  // results: of all stages. `report` must have the step's number and its counted labels; this adds loss, norm, loss scale and
  // whether the step is skipped. Throws Error(numeric) for a loss or a norm that is not finite, unless the loss scale can fall.
  Verdict decide(const std::vector<StageResult>& results, const StepInfo& info, StepReport& report);

 private:
  Verdict skip_without_labels(StepReport& report) const;
  void add_loss(const std::vector<StageResult>& results, const StepInfo& info, StepReport& report) const;
  void add_routing(const std::vector<StageResult>& results, double sequences, StepReport& report) const;
  void lower_loss_scale(const StepInfo& info);

  const TrainJob& job_;
  StepResults results_;
  LossScale loss_scale_;
};

}  // namespace pipetrain
