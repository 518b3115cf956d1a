#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/train/progress.hpp"
#include "apps/watch/watch.hpp"

namespace pipetrain {

namespace {

constexpr int scale_columns = 9;  // "   5.712 "
constexpr int least_curve_rows = 3, most_curve_rows = 16;
constexpr std::size_t most_stage_lines = 16;
constexpr std::size_t rate_steps = 20;
constexpr int columns_beside_bar = 48, least_bar = 4, most_bar = 40;

std::string cut(std::string line, int columns) {
  if (line.size() > static_cast<std::size_t>(columns)) line.resize(static_cast<std::size_t>(columns));
  return line;
}

// The first parts are the most important; those that do not fit are left out.
std::string fitting(const std::vector<std::string>& parts, int columns) {
  std::string line;
  for (const std::string& part : parts) {
    if (line.size() + part.size() + 3 > static_cast<std::size_t>(columns) && !line.empty()) break;
    line += (line.empty() ? "" : "   ") + part;
  }
  return cut(line, columns);
}

// Returns the median over the newest steps, which single slow ones do not change.
double recent(const std::vector<StepMetrics>& steps, double (*read)(const StepMetrics&)) {
  std::vector<double> values;
  for (std::size_t i = steps.size() - std::min(rate_steps, steps.size()); i < steps.size(); ++i)
    values.push_back(read(steps[i]));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string number(const char* name, std::optional<double> value, const char* format) {
  return fmt::format("{} {}", name, value ? fmt::format(fmt::runtime(format), *value) : "unknown");
}

// Returns true if a run of this pace should have written a step by now.
bool is_quiet(const WatchedRun& run, double seconds_per_step) {
  return run.quiet_seconds > std::max(10.0, 5 * seconds_per_step);
}

// Says whether the run is under way, and for how long still, or how it ended.
std::vector<std::string> state_parts(const WatchedRun& run, double seconds_per_step) {
  const StepMetrics& last = run.steps.back();
  const std::string elapsed = "elapsed " + format_duration(last.elapsed);
  if (run.failure) return {failure_line(*run.failure)};
  if (last.total_steps && last.step >= *last.total_steps) return {"finished", elapsed};
  if (!run.has_writer) return {"ended", elapsed};
  if (is_quiet(run, seconds_per_step)) return {"no new step for " + format_duration(run.quiet_seconds), elapsed};
  if (!last.total_steps) return {"running", elapsed};
  const double left = static_cast<double>(*last.total_steps - last.step) * seconds_per_step;
  return {"running", "ETA " + format_duration(left), elapsed};
}

std::vector<std::string> step_parts(const std::vector<StepMetrics>& steps) {
  const StepMetrics& last = steps.back();
  std::vector<std::string> parts = {"step " + format_thousands(last.step)};
  if (last.total_steps) parts.back() += " of " + format_thousands(*last.total_steps);
  if (last.skipped) parts.emplace_back("skipped");
  if (last.takeovers.value_or(0) > 0) {
    const auto begin =
        std::find_if(steps.begin(), steps.end(), [&](const StepMetrics& step) { return step.membership == last.membership; });
    parts.push_back(fmt::format("membership {} since step {}", last.membership.value_or(0), begin->step));
  }
  parts.push_back(number("loss", last.loss, "{:.4f}"));
  parts.push_back(number("grad norm", last.grad_norm, "{:.3f}"));
  parts.push_back(number("lr", last.lr, "{:.2e}"));
  return parts;
}

std::vector<std::string> speed_parts(const std::vector<StepMetrics>& steps, double seconds_per_step) {
  const StepMetrics& last = steps.back();
  const double rate = recent(steps, [](const StepMetrics& step) { return step.tokens_per_second.value_or(0); });
  std::vector<std::string> parts = {format_thousands(std::llround(rate)) + " tokens/s",
                                    fmt::format("{:.3g} s a step", seconds_per_step)};
  if (last.tflops_per_device) parts.push_back(fmt::format("{:.4g} TFLOP/s a device", *last.tflops_per_device));
  if (last.mfu) parts.push_back(fmt::format("MFU {:.1f} %", 100 * *last.mfu));
  if (last.bubble) parts.push_back(fmt::format("bubble {:.1f} %", 100 * *last.bubble));
  return parts;
}

// Returns the newest evaluation and, if an earlier one was better, the best; empty if there is none.
std::vector<std::string> evaluation_parts(const std::vector<EvaluationMetrics>& evaluations) {
  if (evaluations.empty() || !evaluations.back().eval_loss) return {};
  const EvaluationMetrics& last = evaluations.back();
  const EvaluationMetrics* best = &last;
  for (const EvaluationMetrics& each : evaluations)
    if (each.eval_loss && *each.eval_loss < *best->eval_loss) best = &each;
  std::vector<std::string> parts = {
      fmt::format("o evaluation {:.4f} at step {}", *last.eval_loss, format_thousands(last.step))};
  if (best != &last) parts.push_back(fmt::format("best {:.4f} at step {}", *best->eval_loss, format_thousands(best->step)));
  return parts;
}

std::vector<std::string> head_lines(const WatchedRun& run, const WatchView& view) {
  const double seconds = recent(run.steps, [](const StepMetrics& step) { return step.seconds; });
  std::vector<std::string> lines = {fitting(step_parts(run.steps), view.columns),
                                    fitting(state_parts(run, seconds), view.columns),
                                    fitting(speed_parts(run.steps, seconds), view.columns)};
  if (const auto parts = evaluation_parts(run.evaluations); !parts.empty()) lines.push_back(fitting(parts, view.columns));
  return lines;
}

std::vector<std::string> curve_lines(const WatchedRun& run, const WatchView& view, int rows) {
  CurvePoints points, marks;
  for (const StepMetrics& step : run.steps)
    if (step.loss) points.emplace_back(step.step, *step.loss);
  for (const EvaluationMetrics& evaluation : run.evaluations)
    if (evaluation.eval_loss) marks.emplace_back(evaluation.step, *evaluation.eval_loss);
  if (points.empty() || view.columns <= scale_columns) return {};
  double low = points.front().second, high = low;
  for (const CurvePoints* each : {&points, &marks}) {
    for (const auto& point : *each) {
      low = std::min(low, point.second);
      high = std::max(high, point.second);
    }
  }
  const CurveSize size{view.columns - scale_columns, rows};
  std::vector<std::string> lines = draw_curve(points, marks, size, view.glyphs);
  for (std::size_t row = 0; row < lines.size(); ++row) {
    const bool top = row == 0, bottom = row + 1 == lines.size();
    const std::string label = top ? fmt::format("{:>8.4g}", high) : bottom ? fmt::format("{:>8.4g}", low) : "";
    const std::string curve = view.color ? "\x1b[36m" + lines[row] + "\x1b[0m" : lines[row];
    lines[row] = fmt::format("{:>{}} {}", label, scale_columns - 1, curve);
  }
  const std::string begin = format_thousands(points.front().first), end = "step " + format_thousands(points.back().first);
  const int between = size.columns - static_cast<int>(begin.size() + end.size());
  if (between > 0) lines.push_back(fmt::format("{:{}}{}{:{}}{}", "", scale_columns, begin, "", between, end));
  return lines;
}

std::string share_bar(double share, int columns, Glyphs glyphs) {
  const int filled = std::clamp(static_cast<int>(std::lround(share * columns)), 0, columns);
  std::string text;
  for (int i = 0; i < columns; ++i)
    text += glyphs == Glyphs::ascii ? (i < filled ? "#" : ".") : (i < filled ? "\xe2\x96\x88" : "\xe2\x96\x91");  // full, light
  return text;
}

std::string memory_of(const StepMetrics& step, std::size_t stage) {
  const std::size_t devices = step.memory_bytes.size() / std::max<std::size_t>(step.stage_bubble.size(), 1);
  std::optional<std::int64_t> most;
  for (std::size_t i = stage * devices; i < (stage + 1) * devices; ++i) most = std::max(most, step.memory_bytes[i]);
  return most ? format_bytes(*most) : "";
}

// Shows busy shares, so that the longest bar is the stage that the others wait for. A narrow view has no bars.
std::vector<std::string> stage_lines(const StepMetrics& step, const WatchView& view) {
  std::vector<std::string> lines;
  const auto& bubbles = step.stage_bubble;
  if (bubbles.empty()) return lines;
  const int room = view.columns - columns_beside_bar;
  const std::size_t shown = std::min(bubbles.size(), most_stage_lines);
  std::size_t busiest = 0;
  for (std::size_t i = 0; i < bubbles.size(); ++i)
    if (bubbles[i].value_or(1) < bubbles[busiest].value_or(1)) busiest = i;
  for (std::size_t i = 0; i < shown; ++i) {
    const double waits = bubbles[i].value_or(0);
    const std::string bar = room < least_bar ? "" : share_bar(1 - waits, std::min(room, most_bar), view.glyphs) + " ";
    std::vector<std::string> parts = {fmt::format("stage {:<3} {}waits {:>5.1f} %", i, bar, 100 * waits)};
    if (i == busiest && bubbles.size() > 1) parts.emplace_back("busiest");
    if (const std::string memory = memory_of(step, i); !memory.empty()) parts.insert(parts.begin() + 1, memory);
    lines.push_back(bar.empty() ? fitting(parts, view.columns) : fmt::format("{}", fmt::join(parts, "   ")));
  }
  if (shown < bubbles.size())
    lines.push_back(
        cut(fmt::format("... and {} more stages; the busiest is {}", bubbles.size() - shown, busiest), view.columns));
  return lines;
}

}  // namespace

std::string failure_line(const FailureNote& failure) {
  return fmt::format("failed in step {}: {}", format_thousands(failure.step), failure.cause);
}

std::vector<std::string> watch_lines(const WatchedRun& run, const WatchView& view) {
  std::vector<std::string> lines = head_lines(run, view);
  std::vector<std::string> stages = stage_lines(run.steps.back(), view);
  // The steps below the curve, and the cursor's line.
  const int others = static_cast<int>(lines.size() + stages.size()) + 2;
  const int rows = std::min(view.rows - others, most_curve_rows);
  if (rows >= least_curve_rows)
    for (auto& line : curve_lines(run, view, rows)) lines.push_back(std::move(line));
  for (auto& line : stages) lines.push_back(std::move(line));
  if (static_cast<int>(lines.size()) >= view.rows) lines.resize(static_cast<std::size_t>(std::max(view.rows - 1, 1)));
  return lines;
}

}  // namespace pipetrain
