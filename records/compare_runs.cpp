#include "records/compare_runs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pipetrain {

namespace {

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return {};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

template <class Read>
std::optional<double> median_of(const std::vector<StepMetrics>& steps, const Read& read) {
  std::vector<double> values;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
    if (const std::optional<double> value = read(steps[i])) values.push_back(*value);
  return median(std::move(values));
}

RunFigures figures_of(const std::vector<StepMetrics>& steps) {
  RunFigures figures;
  figures.first_step = steps.front().step;
  figures.last_step = steps.back().step;
  figures.steps = static_cast<std::int64_t>(steps.size());
  figures.last_loss = steps.back().loss;
  figures.seconds = median_of(steps, [](const StepMetrics& step) { return std::optional(step.seconds); });
  figures.tokens_per_second = median_of(steps, [](const StepMetrics& step) { return step.tokens_per_second; });
  figures.tflops_per_device = median_of(steps, [](const StepMetrics& step) { return step.tflops_per_device; });
  figures.mfu = median_of(steps, [](const StepMetrics& step) { return step.mfu; });
  figures.bubble = median_of(steps, [](const StepMetrics& step) { return step.bubble; });
  for (const auto& bytes : steps.back().memory_bytes) figures.memory_bytes = std::max(figures.memory_bytes, bytes);
  return figures;
}

bool same_bits(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return !a && !b;
  return std::bit_cast<std::uint64_t>(*a) == std::bit_cast<std::uint64_t>(*b);
}

double relative_difference(std::optional<double> a, std::optional<double> b) {
  if (same_bits(a, b) || (a && b && *a == *b)) return 0;
  if (!a || !b) return 1;
  return std::abs(*a - *b) / std::max(std::abs(*a), std::abs(*b));
}

class Comparing {
 public:
  explicit Comparing(RunComparison& result) : result_(result) {}

  void step(const StepMetrics& a, const StepMetrics& b) {
    ++result_.common_steps;
    value("loss", a.step, a.loss, b.loss, &result_.loss);
    value("grad_norm", a.step, a.grad_norm, b.grad_norm, &result_.grad_norm);
    value("lr", a.step, a.lr, b.lr, &result_.lr);
    value("tokens", a.step, static_cast<double>(a.tokens), static_cast<double>(b.tokens), nullptr);
    value("skipped", a.step, a.skipped ? 1.0 : 0.0, b.skipped ? 1.0 : 0.0, nullptr);
  }

 private:
  void value(const char* name, std::int64_t step, std::optional<double> a, std::optional<double> b,
             LargestDifference* largest) {
    if (same_bits(a, b)) return;
    if (!result_.first) result_.first = FirstDifference{step, name, a, b};
    if (!largest) {
      result_.same_work = false;
      return;
    }
    const double relative = relative_difference(a, b);
    if (largest->step == 0 || relative > largest->relative) *largest = {relative, step};
  }

  RunComparison& result_;
};

}  // namespace

RunComparison compare_runs(const std::vector<StepMetrics>& a, const std::vector<StepMetrics>& b) {
  RunComparison result;
  result.a = figures_of(a);
  result.b = figures_of(b);
  Comparing comparing(result);
  for (auto at = a.begin(), bt = b.begin(); at != a.end() && bt != b.end();) {
    if (at->step < bt->step) {
      ++at;
    } else if (bt->step < at->step) {
      ++bt;
    } else {
      comparing.step(*at++, *bt++);
    }
  }
  return result;
}

}  // namespace pipetrain
