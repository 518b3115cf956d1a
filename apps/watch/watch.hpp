// `pipetrain watch` shows a run in the terminal, from its metrics.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "records/failure_note.hpp"
#include "records/metrics_line.hpp"
#include "records/terminal_curve.hpp"

namespace pipetrain {

std::string watch_help();
// Runs until a signal ends it, except with --once. Throws Error(input).
int run_watch(const std::vector<std::string>& arguments, const Environment& environment);

// A run as its file of metrics shows it.
struct WatchedRun {
  std::vector<StepMetrics> steps;              // ascending, at least one
  std::vector<EvaluationMetrics> evaluations;  // ascending
  std::optional<FailureNote> failure;
  double quiet_seconds = 0;  // time since the last step was read
  bool has_writer = true;    // false: no process writes the file any more
};

struct WatchView {
  int columns = 80, rows = 24;  // the terminal's
  Glyphs glyphs = Glyphs::ascii;
  bool color = false;
};

// Returns "failed in step 8: CAUSE".
std::string failure_line(const FailureNote& failure);

// Returns the lines that show the run and fit the view.
std::vector<std::string> watch_lines(const WatchedRun& run, const WatchView& view);

}  // namespace pipetrain
