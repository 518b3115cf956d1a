#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "schedules/simulate/simulate.hpp"

namespace pipetrain::schedules {

JitterResult simulate_jitter(const Plan& plan, const Costs& costs, int runs, const SimulationOptions& options) {
  if (runs < 1) throw std::invalid_argument("runs must be at least 1, not " + std::to_string(runs));
  if (!std::isfinite(options.jitter) || options.jitter < 0)
    throw std::invalid_argument("jitter must be zero or more and finite, not " + std::to_string(options.jitter));
  const auto needs = validate(plan, options.order, options.life);
  JitterResult result;
  SimulationOptions one = options;
  for (int run = 0; run < runs; ++run, ++one.seed)
    result.makespans.push_back(summarize(simulate(plan, costs, needs, one)).makespan);
  std::vector<double> sorted = result.makespans;
  std::sort(sorted.begin(), sorted.end());
  const auto n = sorted.size();
  result.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  result.p95 = sorted[static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(n))) - 1];
  return result;
}

}  // namespace pipetrain::schedules
