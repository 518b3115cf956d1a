// Writes the --report page, again and again during the run, and hands its data to the server of --serve, so that people can
// look at it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "actors/training/records/run_report.hpp"
#include "apps/options/train_options.hpp"
#include "comm/served/page_server.hpp"

namespace pipetrain {

// Not thread-safe. Each page replaces the previous one by renaming. The next page is written after at least 5 s, the next
// data are served after 1 s if a browser looks at them, else after 10 s, and both after at least 50 times the duration of
// the last write: writing takes at most 2 % of a run each. A stream, such as /dev/stdout, gets the last page only.
class ReportFile {
 public:
  // `options` and `server`, which may be null, must outlive this object.
  ReportFile(const TrainOptions& options, const TrainJob& job, PageServer* server);
  // Adds the earlier steps of a resumed run from the metrics file, if there is one.
  void add_history(std::int64_t steps_done);

  struct Progress {
    std::int64_t total = 0;  // in steps; 0: unknown
    std::optional<double> seconds_left;
  };
  // Returns once why the page could not be written; it is tried again.
  std::optional<std::string> add(const StepMetrics& metrics, const StepReport& report, const Progress& progress);
  void add(const EvaluationMetrics& metrics) { report_.add(metrics); }  // shown by the next page
  // Adds a note or a warning, which the next page shows.
  void note(const std::string& text);
  // Writes the last page. Throws Error.
  void finish(RunState state, const std::string& text);

 private:
  ReportPage page(RunState state, const std::string& text) const;
  void write(RunState state, const std::string& text);
  void serve(RunState state, const std::string& text);
  bool is_to_serve() const;
  std::optional<std::string> try_to_write();

  const TrainOptions& options_;
  PageServer* server_;
  bool is_rewritten_;  // it is a file
  RunReport report_;
  Facts host_;
  ReportPage::Rerun rerun_;  // without its history
  std::size_t notes_left_out_ = 0;
  Progress progress_;
  using Time = std::chrono::steady_clock::time_point;
  Time next_{};                    // page
  Time served_{}, next_served_{};  // data: the last, and the next for a browser that looks at them
  bool failed_ = false;
};

// Returns null if no report is requested. server: of --serve, or null.
std::unique_ptr<ReportFile> open_report(const TrainOptions& options, const TrainJob& job, PageServer* server);

}  // namespace pipetrain
