// `pipetrain watch` shows a run in the terminal, from its metrics.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "records/metrics_line.hpp"
#include "records/terminal_curve.hpp"

namespace pipetrain {

std::string watch_help();
// Runs until a signal ends it, except with --once. Throws Error(input).
int run_watch(const std::vector<std::string>& arguments, const Environment& environment);

struct WatchView {
  int columns = 80, rows = 24;  // the terminal's
  Glyphs glyphs = Glyphs::ascii;
  bool color = false;
  double quiet_seconds = 0;  // time since the last step was read
};

// Returns the lines that show these steps, ascending, and that fit the view; at least one step.
std::vector<std::string> watch_lines(const std::vector<StepMetrics>& steps, const WatchView& view);

}  // namespace pipetrain
