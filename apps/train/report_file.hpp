// The page of --report: written anew while the run goes on, so that it can be looked at.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "actors/training/records/run_report.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

// Not thread-safe. A page takes the place of the one before by renaming. The next one comes no sooner than 5 s, and 50 times
// what it took to write, after it: writing takes at most 2 % of a run. A stream, such as /dev/stdout, gets the last page only.
class ReportFile {
 public:
  // `options`, with a report, must outlive this.
  ReportFile(const TrainOptions& options, const TrainJob& job);
  // For a run that goes on: the steps before, from the file of metrics where there is one.
  void add_history(std::int64_t steps_done);

  struct Progress {
    std::int64_t total = 0;  // steps; 0: not known
    std::optional<double> seconds_left;
  };
  // Returns why the page could not be written, once: it is tried again.
  std::optional<std::string> add(const StepMetrics& metrics, const StepReport& report, const Progress& progress);
  void add(const EvaluationMetrics& metrics) { report_.add(metrics); }  // for the next page
  // The last page. Throws Error.
  void finish(RunState state, const std::string& text);

 private:
  void write(RunState state, const std::string& text);

  const TrainOptions& options_;
  bool is_stream_;
  RunReport report_;
  Facts host_;
  Progress progress_;
  std::chrono::steady_clock::time_point next_{};
  bool failed_ = false;
};

// Null where no report is asked for.
std::unique_ptr<ReportFile> open_report(const TrainOptions& options, const TrainJob& job);

}  // namespace pipetrain
