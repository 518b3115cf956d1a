#include "bench/faults/run_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "records/metrics_line.hpp"

namespace pipetrain::bench {

namespace fs = std::filesystem;

RunResults results_in(const fs::path& folder) {
  RunResults results;
  std::ifstream lines(folder / "metrics");
  for (std::string line; std::getline(lines, line);)
    if (const auto metrics = parse_metrics_line(line, "metrics"))
      results.steps.push_back({metrics->loss.value_or(0), metrics->grad_norm.value_or(0), metrics->lr.value_or(0)});
  results.weights = text_of(folder / "run" / "model" / "model.safetensors");
  return results;
}

std::string problem_of(std::optional<int> status, const fs::path& folder, const RunResults& undisturbed,
                       const std::string& err) {
  if (!status) return "the run hangs: " + err;
  if (*status != 0) return fmt::format("the run ended with status {}: {}", *status, err);
  const RunResults results = results_in(folder);
  if (results.weights != undisturbed.weights) return "the weights are not those of the undisturbed run: " + err;
  if (results.steps != undisturbed.steps) return "the metrics are not those of the undisturbed run: " + err;
  return "";
}

std::ptrdiff_t lines_of(const fs::path& file) {
  const std::string text = text_of(file);
  return std::count(text.begin(), text.end(), '\n');
}

bool wait_for_lines(ProgramRun& run, const fs::path& file, std::ptrdiff_t lines) {
  while (lines_of(file) < lines)
    if (run.wait(std::chrono::milliseconds(1))) return lines_of(file) >= lines;
  return true;
}

}  // namespace pipetrain::bench
