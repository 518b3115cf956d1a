#include "bench/faults/begun_steps.hpp"

#include <algorithm>
#include <string>

#include "records/metrics_line.hpp"

namespace pipetrain::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds longest_wait{120};

// Returns the first step that a membership after this one has reported. Memberships only grow.
std::optional<StepMetrics> first_step_after(std::int64_t membership, const fs::path& metrics) {
  const std::string text = text_of(metrics);
  std::optional<StepMetrics> first;
  for (std::size_t end = text.rfind('\n'); end != text.npos && end > 0;) {
    const std::size_t before = text.rfind('\n', end - 1);
    const std::size_t begin = before == text.npos ? 0 : before + 1;
    const auto step = parse_metrics_line(text.substr(begin, end - begin), "metrics");
    if (!step || step->membership.value_or(0) <= membership) break;
    first = step;
    end = before;
  }
  return first;
}

}  // namespace

std::optional<BegunStep> wait_for_step_after(std::int64_t membership, const fs::path& metrics, ProgramRun& run,
                                             Clock::time_point since) {
  for (bool ended = false;; ended = run.wait(std::chrono::milliseconds(1)).has_value()) {
    const double now = std::chrono::duration<double>(Clock::now() - since).count();
    if (const auto step = first_step_after(membership, metrics))
      return BegunStep{*step->membership, std::max(0.0, now - step->seconds)};
    if (ended || now > std::chrono::duration<double>(longest_wait).count()) return std::nullopt;
  }
}

}  // namespace pipetrain::bench
