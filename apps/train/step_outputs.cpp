#include "apps/train/step_outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/output/stderr_lines.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

const auto process_start = std::chrono::steady_clock::now();

double seconds_since_start() { return std::chrono::duration<double>(std::chrono::steady_clock::now() - process_start).count(); }

std::optional<std::int64_t> fullest_device(const StepMetrics& metrics) {
  std::optional<std::int64_t> fullest;
  for (const auto& bytes : metrics.memory_bytes) fullest = std::max(fullest, bytes);
  return fullest;
}

StepProgress trained_progress(const StepMetrics& metrics, std::int64_t total, double seconds_per_step) {
  StepProgress progress;
  progress.step = metrics.step;
  progress.total = total;
  progress.loss = metrics.loss;
  progress.margin = metrics.preference.margin;
  progress.accuracy = metrics.preference.accuracy;
  progress.grad_norm = metrics.grad_norm;
  progress.loss_scale = metrics.loss_scale;
  progress.lr = *metrics.lr;
  progress.tokens_per_second = *metrics.tokens_per_second;
  progress.bubble = metrics.bubble;
  progress.input_wait = input_wait_share(metrics);
  progress.tflops_per_device = metrics.tflops_per_device;
  progress.mfu = metrics.mfu;
  progress.memory_bytes = fullest_device(metrics);
  progress.skipped = metrics.skipped;
  if (total > 0) progress.eta_seconds = static_cast<double>(total - metrics.step) * seconds_per_step;
  return progress;
}

struct Scalars {
  std::vector<Scalar> known;
  void add(const std::string& begin, const PreferenceMetrics& metrics) {
    for (const PreferenceField& field : preference_fields)
      if (const auto value = metrics.*field.value) known.push_back({begin + field.key, *value});
  }
  void add(const char* tag, std::optional<double> value) {
    if (value) known.push_back({tag, *value});
  }
};

std::string preference_text(const PreferenceMetrics& metrics) {
  std::string text = "reward margin " + (metrics.margin ? fmt::format("{:.4f}", *metrics.margin) : "unknown");
  if (metrics.accuracy) text += fmt::format(", accuracy {:.2f} %", 100 * *metrics.accuracy);
  return text;
}

std::string evaluation_line(const Evaluation& evaluation) {
  const std::string quality =
      evaluation.preference ? preference_text(*evaluation.preference)
      : evaluation.accuracy ? fmt::format("accuracy {:.2f} %, F1 {:.2f} %", 100 * *evaluation.accuracy, 100 * *evaluation.f1)
                            : fmt::format("perplexity {:.4g}", *evaluation.perplexity());
  return fmt::format("step {}: evaluation loss {:.4f}, {} ({} in {:.1f} s)", evaluation.step, evaluation.loss, quality,
                     counted(evaluation.samples, "sample"), evaluation.seconds);
}

// Calls `work`; a failed write is an input error about --tensorboard, as for the other records of a run.
template <class Work>
void placing_event_errors(const TrainOptions& options, const Work& work) {
  try {
    work();
  } catch (const WriteError& error) {
    throw Error(ErrorKind::input, Setting{"tensorboard", options.records.tensorboard->string()}, error.what());
  }
}

}  // namespace

std::vector<Scalar> scalars_of(const StepMetrics& metrics) {
  Scalars scalars;
  scalars.add("loss", metrics.loss);
  scalars.add("grad_norm", metrics.grad_norm);
  scalars.add("lr", metrics.lr);
  scalars.add("tokens_per_second", metrics.tokens_per_second);
  scalars.add("tokens_per_second_per_device", metrics.tokens_per_second_per_device);
  scalars.add("tflops_per_device", metrics.tflops_per_device);
  scalars.add("mfu", metrics.mfu);
  scalars.add("bubble", metrics.bubble);
  scalars.add("step_seconds", metrics.seconds);
  scalars.add("input_wait", metrics.input_wait);
  const auto fullest = fullest_device(metrics);
  scalars.add("memory_bytes", fullest ? std::optional(static_cast<double>(*fullest)) : std::nullopt);
  scalars.add("loss_scale", metrics.loss_scale);
  scalars.add("skipped", metrics.skipped ? 1.0 : 0.0);
  scalars.add("applied_steps",
              metrics.applied_steps ? std::optional(static_cast<double>(*metrics.applied_steps)) : std::nullopt);
  scalars.add("aux_loss", metrics.aux_loss);
  scalars.add("z_loss", metrics.z_loss);
  scalars.add("expert_load_max", metrics.expert_load_max);
  scalars.add("expert_load_cv", metrics.expert_load_cv);
  scalars.add("expert_dropped",
              metrics.expert_dropped ? std::optional(static_cast<double>(*metrics.expert_dropped)) : std::nullopt);
  scalars.add("", metrics.preference);
  return std::move(scalars.known);
}

std::vector<Scalar> scalars_of(const EvaluationMetrics& metrics) {
  Scalars scalars;
  scalars.add("eval_loss", metrics.eval_loss);
  scalars.add("perplexity", metrics.perplexity);
  scalars.add("accuracy", metrics.accuracy);
  scalars.add("f1", metrics.f1);
  scalars.add("eval_", metrics.preference);
  return std::move(scalars.known);
}

StepOutputs::StepOutputs(const TrainOptions& options, const Trainer& trainer, const ModelFigures& model, ReportFile* report)
    : options_(options),
      memory_(trainer.memory()),
      model_(model),
      report_(report),
      peak_(peak_speed(options)),
      last_step_(trainer.steps_done()),
      progress_(Progress::on_stderr(options.log_interval)) {
  if (options.records.metrics) metrics_.emplace(*options.records.metrics, trainer.steps_done());
  if (options.records.tensorboard)
    placing_event_errors(options, [&] { events_.emplace(*options.records.tensorboard, trainer.steps_done()); });
  if (report_) report_->add_history(trainer.steps_done());
}

void StepOutputs::begin(const std::vector<std::string>& notes, std::int64_t total) {
  total_ = total;
  if (metrics_) metrics_->begin();
  std::vector<std::string> all = notes;
  if (peak_) all.push_back(peak_->note());
  if (!metrics_ || metrics_->tried()) return print_notes(all);
  held_back_ = std::move(all);
}

void StepOutputs::step(const StepReport& report) {
  StepMetrics metrics = step_metrics(report, memory_, model_, seconds_since_start());
  last_step_ = metrics.step;
  if (total_ > 0) metrics.total_steps = total_;
  if (peak_ && metrics.tflops_per_device) metrics.mfu = *metrics.tflops_per_device / peak_->tflops;
  write(metrics);
  print_notes(std::exchange(held_back_, {}));
  // A moving average, which forgets the slow first steps.
  seconds_per_step_ = seconds_per_step_ == 0 ? report.seconds : 0.9 * seconds_per_step_ + 0.1 * report.seconds;
  const StepProgress progress = trained_progress(metrics, total_, seconds_per_step_);
  progress_.step(progress);
  if (!report_) return;
  if (const auto problem = report_->add(metrics, report, {total_, progress.eta_seconds})) print_notes({*problem});
}

void StepOutputs::evaluation(const Evaluation& evaluation) {
  const EvaluationMetrics metrics = evaluation_metrics(evaluation);
  write(metrics);
  print_notes({evaluation_line(evaluation)});
  if (report_) report_->add(metrics);
}

void StepOutputs::finish() { progress_.finish(); }

void StepOutputs::fail(const std::string& cause) {
  if (metrics_) metrics_->fail({last_step_ + 1, one_line(cause)});
  try {
    finish_report(RunState::failed, cause);
  } catch (const Error&) {
  }
}

void StepOutputs::finish_report(RunState state, const std::string& text) {
  if (report_ == nullptr) return;
  report_->finish(state, text);
  report_ = nullptr;
}

void StepOutputs::print_notes(const std::vector<std::string>& notes) {
  for (const auto& text : notes) progress_.note(one_line(text));
}

// If nobody reads the metrics of a run that is stopped, only their lines are lost.
template <class Metrics>
void StepOutputs::write(const Metrics& metrics) {
  try {
    if (metrics_) metrics_->write(metrics);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::aborted) throw;
    metrics_.reset();
    held_back_.emplace_back(error.what());
  }
  if (events_) placing_event_errors(options_, [&] { events_->write(metrics.step, scalars_of(metrics)); });
}

}  // namespace pipetrain
