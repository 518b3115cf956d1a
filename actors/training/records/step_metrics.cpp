#include "actors/training/records/step_metrics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace pipetrain {

namespace {

// Returns, by stage, the share of the step, from its first action to its last on any stage, in which the stage ran nothing.
std::vector<std::optional<double>> stage_bubbles(const std::vector<StageTrace>& stages) {
  using Duration = std::chrono::duration<double>;
  auto first = std::chrono::steady_clock::time_point::max();
  auto last = std::chrono::steady_clock::time_point::min();
  std::vector<double> busy(stages.size(), 0);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const auto& action : stages[stage].actions) {
      if (schedules::is_move(action.action.kind)) continue;  // moves overlap with the work of the stage
      first = std::min(first, action.times.start);
      last = std::max(last, action.times.end);
      busy[stage] += Duration(action.times.end - action.times.start).count();
    }
  }
  const double makespan = Duration(last - first).count();
  std::vector<std::optional<double>> bubbles;
  for (const double seconds : busy)
    bubbles.push_back(makespan > 0 ? std::optional(std::max(0.0, 1 - seconds / makespan)) : std::nullopt);
  return bubbles;
}

}  // namespace

StepMetrics step_metrics(const StepReport& report, const std::vector<DeviceMemory>& memory, const ModelFigures& model,
                         double elapsed) {
  StepMetrics metrics;
  metrics.step = report.step;
  if (report.has_loss()) metrics.loss = report.loss;
  if (std::isfinite(report.grad_norm)) metrics.grad_norm = report.grad_norm;
  metrics.lr = report.learning_rate;
  metrics.tokens = report.tokens;
  metrics.seconds = report.seconds;
  metrics.elapsed = elapsed;
  const double rate = static_cast<double>(report.tokens) / report.seconds;
  const auto devices = static_cast<double>(memory.size());
  metrics.tokens_per_second = rate;
  metrics.tokens_per_second_per_device = rate / devices;
  metrics.tflops_per_device = rate * model.flops_per_token / devices / 1e12;
  metrics.bubble = report.bubble;
  metrics.skipped = report.skipped;
  metrics.applied_steps = report.applied_steps;
  metrics.loss_scale = report.loss_scale;
  metrics.trainable_parameters = model.trainable_parameters;
  metrics.membership = report.membership;
  metrics.takeovers = report.membership - 1 - report.relayouts;
  if (report.has_loss()) metrics.mtp_loss = report.mtp_loss;
  metrics.aux_loss = report.aux_loss;
  metrics.z_loss = report.z_loss;
  if (!report.routed.empty()) {
    const ExpertLoad load = expert_load(report.routed);
    metrics.expert_load_max = load.max;
    metrics.expert_load_cv = load.cv;
    double dropped = 0;
    for (const RoutedLayer& layer : report.routed) dropped += layer.dropped;
    metrics.expert_dropped = static_cast<std::int64_t>(dropped);
  }
  metrics.preference = report.preference.value_or(PreferenceMetrics{});
  metrics.input_wait = report.input_wait;
  metrics.stage_bubble = report.stage_bubble.empty() ? stage_bubbles(report.trace) : report.stage_bubble;
  for (const auto& device : memory) metrics.memory_bytes.push_back(static_cast<std::int64_t>(device.use.total()));
  return metrics;
}

EvaluationMetrics evaluation_metrics(const Evaluation& evaluation) {
  return {evaluation.step,     evaluation.loss, evaluation.perplexity(),
          evaluation.accuracy, evaluation.f1,   evaluation.preference.value_or(PreferenceMetrics{})};
}

}  // namespace pipetrain
