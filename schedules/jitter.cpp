#include "schedules/jitter.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "schedules/simulate.hpp"

namespace pipetrain::schedules {

namespace {

// splitmix64 (Steele, Lea, Flood 2014): a good hash of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A normal number that depends only on the arguments (Box-Muller).
double normal(std::uint64_t seed, int stage, const Action& action) {
  const std::uint64_t what = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(action.microbatch)) << 32) |
                             (static_cast<std::uint64_t>(static_cast<std::uint16_t>(action.chunk)) << 8) |
                             static_cast<std::uint64_t>(action.kind);
  const std::uint64_t a = mix(mix(mix(seed) ^ static_cast<std::uint64_t>(stage)) ^ what), b = mix(a);
  const double u = (static_cast<double>(a >> 11) + 1) * 0x1p-53, v = static_cast<double>(b >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace

double jitter_factor(double deviation, std::uint64_t seed, int stage, const Action& action) {
  return std::exp(deviation * normal(seed, stage, action));
}

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
