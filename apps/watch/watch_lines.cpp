#include <fmt/format.h>

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

std::vector<std::string> head_lines(const std::vector<StepMetrics>& steps, const WatchView& view) {
  const StepMetrics& last = steps.back();
  const double seconds = recent(steps, [](const StepMetrics& step) { return step.seconds; });
  std::vector<std::string> first = {"step " + format_thousands(last.step), number("loss", last.loss, "{:.4f}"),
                                    number("grad norm", last.grad_norm, "{:.3f}"), number("lr", last.lr, "{:.2e}")};
  if (last.takeovers.value_or(0) > 0) {
    const auto begin =
        std::find_if(steps.begin(), steps.end(), [&](const StepMetrics& step) { return step.membership == last.membership; });
    first.insert(first.begin() + 1, fmt::format("membership {} since step {}", last.membership.value_or(0), begin->step));
  }
  if (last.skipped) first.insert(first.begin() + 1, "skipped");
  const double rate = recent(steps, [](const StepMetrics& step) { return step.tokens_per_second.value_or(0); });
  std::vector<std::string> second = {format_thousands(std::llround(rate)) + " tokens/s",
                                     fmt::format("{:.3g} s a step", seconds)};
  if (last.tflops_per_device) second.push_back(fmt::format("{:.4g} TFLOP/s a device", *last.tflops_per_device));
  if (last.mfu) second.push_back(fmt::format("MFU {:.1f} %", 100 * *last.mfu));
  if (last.bubble) second.push_back(fmt::format("bubble {:.1f} %", 100 * *last.bubble));
  if (view.quiet_seconds > std::max(10.0, 5 * seconds))
    second.insert(second.begin(), "no new step for " + format_duration(view.quiet_seconds));
  return {fitting(first, view.columns), fitting(second, view.columns)};
}

std::vector<std::string> curve_lines(const std::vector<StepMetrics>& steps, const WatchView& view, int rows) {
  std::vector<std::pair<std::int64_t, double>> points;
  for (const StepMetrics& step : steps)
    if (step.loss) points.emplace_back(step.step, *step.loss);
  if (points.empty() || view.columns <= scale_columns) return {};
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(), [](auto& a, auto& b) { return a.second < b.second; });
  const CurveSize size{view.columns - scale_columns, rows};
  std::vector<std::string> lines = draw_curve(points, size, view.glyphs);
  for (std::size_t row = 0; row < lines.size(); ++row) {
    const bool top = row == 0, bottom = row + 1 == lines.size();
    const std::string label = top ? fmt::format("{:>8.4g}", high->second) : bottom ? fmt::format("{:>8.4g}", low->second) : "";
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

// Returns the memory of one stage's devices.
std::string memory_of(const StepMetrics& step, std::size_t stage) {
  const std::size_t devices = step.memory_bytes.size() / std::max<std::size_t>(step.stage_bubble.size(), 1);
  std::optional<std::int64_t> most;
  for (std::size_t i = stage * devices; i < (stage + 1) * devices; ++i) most = std::max(most, step.memory_bytes[i]);
  return most ? "   " + format_bytes(*most) : "";
}

// Shows busy shares, so that the longest bar is the stage that the others wait for.
std::vector<std::string> stage_lines(const StepMetrics& step, const WatchView& view) {
  std::vector<std::string> lines;
  const auto& bubbles = step.stage_bubble;
  const int room = view.columns - 48;
  if (bubbles.empty() || room < 4) return lines;
  const std::size_t shown = std::min(bubbles.size(), most_stage_lines);
  std::size_t busiest = 0;
  for (std::size_t i = 0; i < bubbles.size(); ++i)
    if (bubbles[i].value_or(1) < bubbles[busiest].value_or(1)) busiest = i;
  for (std::size_t i = 0; i < shown; ++i) {
    const double waits = bubbles[i].value_or(0);
    lines.push_back(fmt::format("stage {:<3} {} waits {:>5.1f} %{}{}", i, share_bar(1 - waits, std::min(room, 40), view.glyphs),
                                100 * waits, memory_of(step, i), i == busiest && bubbles.size() > 1 ? "   busiest" : ""));
  }
  if (shown < bubbles.size())
    lines.push_back(fmt::format("... and {} more stages; the busiest is {}", bubbles.size() - shown, busiest));
  return lines;
}

}  // namespace

std::vector<std::string> watch_lines(const std::vector<StepMetrics>& steps, const WatchView& view) {
  std::vector<std::string> lines = head_lines(steps, view);
  std::vector<std::string> stages = stage_lines(steps.back(), view);
  // The steps below the curve, and the cursor's line.
  const int others = static_cast<int>(lines.size() + stages.size()) + 2;
  const int rows = std::min(view.rows - others, most_curve_rows);
  if (rows >= least_curve_rows)
    for (auto& line : curve_lines(steps, view, rows)) lines.push_back(std::move(line));
  for (auto& line : stages) lines.push_back(std::move(line));
  if (static_cast<int>(lines.size()) >= view.rows) lines.resize(static_cast<std::size_t>(std::max(view.rows - 1, 1)));
  return lines;
}

}  // namespace pipetrain
