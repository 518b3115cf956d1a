#include "actors/training/run/step_verdicts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "actors/training/input/preference_pass.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/run/preference_tally.hpp"
#include "actors/training/run/trainer.hpp"
#include "core/error.hpp"
#include "model/parameters/gradient_norm.hpp"

namespace pipetrain {
namespace {

void check_finite(double value, const char* what, std::int64_t step) {
  if (std::isfinite(value)) return;
  throw Error(ErrorKind::numeric,
              fmt::format("the {} of step {} is {}; lower the learning rate or look at the data of this step", what, step,
                          std::isnan(value) ? "NaN" : "infinite"));
}

}  // namespace

StepVerdicts::StepVerdicts(const ParallelLayout& layout, const TrainJob& job)
    : job_(job),
      results_(layout, job),
      loss_scale_(job.loss_scale.dynamic && job.initial.loss_scale ? LossScale(job.loss_scale, *job.initial.loss_scale)
                                                                   : LossScale(job.loss_scale)) {
  if (job.compression.gradients == BlockCode::sign)
    variance_.emplace(job.optimizer.beta2, least_warm_up(job.learning_rate), job.initial.variance.value_or(VarianceState{}));
}

std::optional<VarianceState> StepVerdicts::variance_state() const {
  return variance_ ? std::optional(variance_->state()) : std::nullopt;
}

void StepVerdicts::set_variance(StepInfo& info) const {
  if (!variance_) return;
  info.frozen_after = variance_->state().frozen_after;
  info.gradient_factor = variance_->gradient_factor();
}

std::optional<LossScaleState> StepVerdicts::loss_scale_state() const {
  return loss_scale_.is_dynamic() ? std::optional(loss_scale_.state()) : std::nullopt;
}

void StepVerdicts::restore(const std::optional<LossScaleState>& state, const std::optional<VarianceState>& variance) {
  if (variance_) variance_.emplace(job_.optimizer.beta2, least_warm_up(job_.learning_rate), variance.value_or(VarianceState{}));
  if (loss_scale_.is_dynamic()) loss_scale_ = state ? LossScale(job_.loss_scale, *state) : LossScale(job_.loss_scale);
}

Verdict StepVerdicts::decide(const std::vector<StageResult>& results, const StepInfo& info, std::int64_t applied,
                             StepReport& report) {
  report.grad_norm = results_.grad_norm(results) / info.loss_scale;
  if (job_.loss_scale != LossScaleSettings{}) report.loss_scale = info.loss_scale;
  if (!report.has_loss()) return skip_without_labels(report);
  add_loss(results, info, report);
  add_routing(results, info.sequences, report);
  check_finite(report.loss, "loss", info.step);
  report.skipped = job_.fault && job_.fault->kind == FaultKind::skip && job_.fault->step == info.step;
  if (loss_scale_.is_dynamic() && !std::isfinite(report.grad_norm)) {
    report.skipped = true;
    lower_loss_scale(info);
  } else {
    check_finite(report.grad_norm, "gradient norm", info.step);
    loss_scale_.applied();
  }
  const float clip = clip_factor(report.grad_norm, job_.clip_norm);
  report.redone = job_.post_validation && (report.skipped || clip != 1);  // StepBubbles clears it if no stage began early
  if (report.skipped) return {.apply = false};
  if (variance_) variance_->applied(report.grad_norm, clip, applied + 1);
  return {true, clip / info.loss_scale, clip == 1};
}

void StepVerdicts::add_loss(const std::vector<StageResult>& results, const StepInfo& info, StepReport& report) const {
  if (!job_.config.preference) {
    LossSums sums{.own = report.loss};
    results_.add_losses(results, info.kind, sums);
    report.loss = sums.own / info.tokens;
    if (job_.config.mtp.is_trained()) report.mtp_loss = sums.further / info.tokens;
    return;
  }
  PreferenceTally tally(*job_.config.preference);
  tally.add(results_.sequence_sums(results, info.kind), preference_pass_of(info).facts);
  report.loss = tally.mean_loss();
  report.preference = tally.report();
}

void StepVerdicts::add_routing(const std::vector<StageResult>& results, double sequences, StepReport& report) const {
  report.routed = results_.routed_layers(results);
  if (report.routed.empty()) return;
  double balance = 0, z = 0;
  for (const RoutedLayer& layer : report.routed) balance += layer.balance, z += layer.z;
  report.aux_loss = balance / sequences;
  report.z_loss = z / sequences;
}

// The gradients are 0: they would still decay weights and moments, and tell nothing about the loss scale.
Verdict StepVerdicts::skip_without_labels(StepReport& report) const {
  report.loss = std::numeric_limits<double>::quiet_NaN();
  report.skipped = true;
  report.redone = job_.post_validation;
  return {.apply = false};
}

void StepVerdicts::lower_loss_scale(const StepInfo& info) {
  if (loss_scale_.overflowed()) return;
  throw Error(ErrorKind::numeric, fmt::format("the gradients of step {} overflow at the smallest loss scale, {}; lower the "
                                              "learning rate, or train in bf16",
                                              info.step, info.loss_scale));
}

}  // namespace pipetrain
