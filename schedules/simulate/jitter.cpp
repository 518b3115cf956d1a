#include "schedules/simulate/jitter.hpp"

#include <cmath>
#include <numbers>

namespace pipetrain::schedules {

namespace {

// splitmix64 (Steele, Lea, Flood 2014): a good hash of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns a normal random number that depends only on the arguments (Box-Muller).
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

}  // namespace pipetrain::schedules
