#include "actors/training/run/run_progress.hpp"

#include <string>
#include <utility>

#include "actors/training/job/train_job.hpp"
#include "actors/training/run/expert_biases.hpp"
#include "actors/training/run/trainer.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t steps_remembered = 4;  // more than the copies of a rank's state

}  // namespace

RunProgress::RunProgress(const TrainJob& job) {
  Counts& begin = latest_.emplace_back();
  begin.steps = job.steps_done;
  begin.applied_steps = job.initial.applied_steps;
  begin.first_loss = job.first_loss;
  begin.has_first_loss = begin.steps > 0 && (job.last_loss || job.first_loss != 0);  // older checkpoints lack the last loss
  begin.last_loss = job.last_loss;
  begin.coming = {job.initial.loss_scale, job.initial.variance, ExpertBiases(job).values()};
}

RunProgress::RunProgress(const Bytes& record) {
  WireReader in(record);
  Counts& counts = latest_.emplace_back();
  counts.steps = in.number<std::int64_t>();
  counts.applied_steps = in.number<std::int64_t>();
  counts.has_first_loss = in.flag();
  counts.first_loss = in.number<double>();
  if (in.flag()) counts.last_loss = in.number<double>();
  if (in.flag()) {
    LossScaleState& scale = counts.coming.loss_scale.emplace();
    scale.scale = in.number<double>();
    scale.good_steps = in.number<std::int64_t>();
    scale.overflows = in.number<std::int64_t>();
  }
  if (in.flag()) {
    VarianceState& variance = counts.coming.variance.emplace();
    variance.norm = in.number<double>();
    variance.earlier = in.number<double>();
    variance.steps = in.number<std::int64_t>();
    variance.frozen_after = in.number<std::int64_t>();
    variance.clip = in.number<double>();
  }
  counts.coming.expert_biases.resize(in.count(sizeof(std::uint32_t)));
  for (std::vector<float>& layer : counts.coming.expert_biases) {
    layer.resize(in.count(sizeof(float)));
    for (float& bias : layer) bias = in.number<float>();
  }
  in.end();
}

Bytes RunProgress::record() const {
  const Counts& counts = now();
  WireWriter out;
  out.number(counts.steps);
  out.number(counts.applied_steps);
  out.flag(counts.has_first_loss);
  out.number(counts.first_loss);
  out.flag(counts.last_loss.has_value());
  if (counts.last_loss) out.number(*counts.last_loss);
  out.flag(counts.coming.loss_scale.has_value());
  if (const auto& scale = counts.coming.loss_scale) {
    out.number(scale->scale);
    out.number(scale->good_steps);
    out.number(scale->overflows);
  }
  out.flag(counts.coming.variance.has_value());
  if (const auto& variance = counts.coming.variance) {
    out.number(variance->norm);
    out.number(variance->earlier);
    out.number(variance->steps);
    out.number(variance->frozen_after);
    out.number(variance->clip);
  }
  out.list(counts.coming.expert_biases,
           [&](const std::vector<float>& layer) { out.list(layer, [&](float bias) { out.number(bias); }); });
  return std::move(out).data();
}

void RunProgress::add(const StepReport& report, Coming coming) {
  Counts counts = now();
  counts.steps = report.step;
  if (!report.skipped) ++counts.applied_steps;
  if (report.has_loss()) {
    if (!counts.has_first_loss) counts.first_loss = report.loss;
    counts.has_first_loss = true;
    counts.last_loss = report.loss;
  }
  counts.coming = std::move(coming);
  counts.learning_rate = report.learning_rate;
  latest_.push_back(counts);
  if (latest_.size() > steps_remembered) latest_.pop_front();
}

std::vector<RunProgress::Counts> RunProgress::go_back(std::int64_t step) {
  std::vector<Counts> gone;
  while (!latest_.empty() && now().steps != step) {
    gone.push_back(now());
    latest_.pop_back();
  }
  if (latest_.empty())
    throw Error(ErrorKind::internal, "the run cannot go back to step " + std::to_string(step) + ", which is too long ago");
  return gone;
}

}  // namespace pipetrain
