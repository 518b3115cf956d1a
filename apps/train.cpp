#include "apps/train.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>

#include "actors/training/trainer.hpp"
#include "apps/metrics_file.hpp"
#include "apps/progress.hpp"
#include "apps/signals.hpp"
#include "apps/train_job.hpp"
#include "core/error.hpp"
#include "model/costs.hpp"

namespace pipetrain {
namespace {

const auto process_start = std::chrono::steady_clock::now();

double seconds_since_start() { return std::chrono::duration<double>(std::chrono::steady_clock::now() - process_start).count(); }

StepMetrics metrics_of(const StepReport& report, const std::vector<DeviceMemory>& memory, double flops_per_token) {
  StepMetrics metrics;
  metrics.step = report.step;
  metrics.loss = report.loss;
  metrics.grad_norm = report.grad_norm;
  metrics.lr = report.learning_rate;
  metrics.tokens = report.tokens;
  metrics.seconds = report.seconds;
  metrics.elapsed = seconds_since_start();
  const double rate = static_cast<double>(report.tokens) / report.seconds;
  const auto devices = static_cast<double>(memory.size());
  metrics.tokens_per_second = rate;
  metrics.tokens_per_second_per_device = rate / devices;
  metrics.tflops_per_device = rate * flops_per_token / devices / 1e12;
  metrics.bubble = report.bubble;
  for (const auto& device : memory) metrics.memory_bytes.push_back(static_cast<std::int64_t>(device.use.total()));
  return metrics;
}

StepProgress progress_of(const StepReport& report, std::int64_t total, double seconds_per_step) {
  StepProgress progress;
  progress.step = report.step;
  progress.total = total;
  progress.loss = report.loss;
  progress.grad_norm = report.grad_norm;
  progress.lr = report.learning_rate;
  progress.tokens_per_second = static_cast<double>(report.tokens) / report.seconds;
  progress.bubble = report.bubble;
  if (total > 0) progress.eta_seconds = static_cast<double>(total - report.step) * seconds_per_step;
  return progress;
}

// Fails now, not after hours of training, when the place for the results cannot be written.
void check_writable(const std::filesystem::path& folder) {
  std::error_code failure;
  const bool made = std::filesystem::create_directories(folder, failure);
  const auto probe = folder / ".pipetrain-probe";
  const bool written = !failure && std::filesystem::create_directory(probe, failure);
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
  if (written) return;
  if (made) std::filesystem::remove(folder, ignored);
  throw Error(ErrorKind::input,
              fmt::format("--save {}: cannot be written ({}); choose another folder", folder.string(), failure.message()));
}

// Everything that hears of a step.
class Outputs {
 public:
  Outputs(const TrainOptions& options, const Trainer& trainer, double flops_per_token, std::int64_t total)
      : memory_(trainer.memory()),
        flops_per_token_(flops_per_token),
        total_(total),
        progress_(Progress::on_stderr(options.log_interval)) {
    if (options.metrics) metrics_.emplace(*options.metrics, options.resume);
    for (const auto& note : options.notes) progress_.note(note);
  }

  void step(const StepReport& report) {
    if (metrics_) metrics_->write(metrics_of(report, memory_, flops_per_token_));
    // A moving average that forgets the slow first steps.
    seconds_per_step_ = seconds_per_step_ == 0 ? report.seconds : 0.9 * seconds_per_step_ + 0.1 * report.seconds;
    progress_.step(progress_of(report, total_, seconds_per_step_));
  }
  void note(const std::string& text) { progress_.note(text); }
  void finish() { progress_.finish(); }

 private:
  std::vector<DeviceMemory> memory_;
  double flops_per_token_;
  std::int64_t total_;
  double seconds_per_step_ = 0;
  Progress progress_;
  std::optional<MetricsFile> metrics_;
};

bool ends(const RunLength& length, const StepReport& report, double first_loss) {
  return length.loss_ratio && report.step >= length.least_steps && report.loss < *length.loss_ratio * first_loss;
}

}  // namespace

int run_train(const TrainOptions& options) {
  TrainJob job = make_train_job(options);
  const double flops_per_token = model_flops_per_token(job.config, job.dataset->sequence_length());
  if (options.save) check_writable(*options.save);
  Trainer trainer(std::move(job));
  const RunLength length = run_length(options, trainer.steps_per_epoch());
  catch_stop_signals();
  Outputs outputs(options, trainer, flops_per_token, length.loss_ratio ? 0 : length.steps);

  double first_loss = 0, last_loss = 0;
  while (trainer.steps_done() < length.steps && stop_signal() == 0) {
    const StepReport report = trainer.step();
    if (report.step == 1) first_loss = report.loss;
    last_loss = report.loss;
    outputs.step(report);
    if (ends(length, report, first_loss)) break;
  }
  outputs.finish();
  if (options.save) trainer.save_model(*options.save / "model");
  if (trainer.steps_done() > 0) {
    fmt::print("{} steps, loss {:.4f} -> {:.4f}{}\n", trainer.steps_done(), first_loss, last_loss,
               options.save ? fmt::format(", saved {}", (*options.save / "model").string()) : "");
  }
  if (stop_signal() != 0) fmt::print(stderr, "stopped by a signal after step {}\n", trainer.steps_done());
  return stop_signal() == 0 ? 0 : 128 + stop_signal();
}

}  // namespace pipetrain
