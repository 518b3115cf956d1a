// The outputs that report each step during a run: progress on stderr, and the files of --metrics, --tensorboard and
// --report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/records/step_metrics.hpp"
#include "actors/training/run/trainer.hpp"
#include "apps/options/train_options.hpp"
#include "apps/train/metrics_file.hpp"
#include "apps/train/peak_speed.hpp"
#include "apps/train/progress.hpp"
#include "apps/train/report_file.hpp"
#include "records/event_file.hpp"

namespace pipetrain {

// Not thread-safe.
class StepOutputs {
 public:
  // Opens the files. Call it while a signal still ends the process at once, because a pipe may have no reader. The
  // options must outlive this object; so must report, which may be null. Throws Error.
  StepOutputs(const TrainOptions& options, const Trainer& trainer, const ModelFigures& model, ReportFile* report);
  // Call it before the first step. total: all steps of the run, 0 if unknown. The notes are held back until a line of
  // metrics has shown that metrics can be written.
  void begin(const std::vector<std::string>& notes, std::int64_t total);
  // Throws Error if a file cannot be written.
  void step(const StepReport& report);
  void evaluation(const Evaluation& evaluation);  // likewise
  // Prints a line over the progress, which the report shows too.
  void warn(const std::string& line);
  void finish();
  // Writes the cause to a file next to the metrics, and into the report. It drops errors of these writes: the cause matters
  // more.
  void fail(const std::string& cause);
  // Writes the last page of the report, if there is one and it has not been written. Throws Error.
  void finish_report(RunState state, const std::string& text = "");

 private:
  void print_notes(const std::vector<std::string>& notes);
  template <class Metrics>  // of a step or of an evaluation
  void write(const Metrics& metrics);

  const TrainOptions& options_;
  std::vector<DeviceMemory> memory_;
  ModelFigures model_;
  std::optional<MetricsFile> metrics_;
  std::optional<EventFile> events_;
  ReportFile* report_;
  std::optional<PeakSpeed> peak_;  // one device's
  std::int64_t total_ = 0, last_step_ = 0;
  double seconds_per_step_ = 0;
  std::vector<std::string> held_back_;  // notes
  Progress progress_;
};

// Returns the known scalars of a step's metrics, by the keys of --metrics; memory_bytes is that of the fullest device.
std::vector<Scalar> scalars_of(const StepMetrics& metrics);
std::vector<Scalar> scalars_of(const EvaluationMetrics& metrics);

}  // namespace pipetrain
