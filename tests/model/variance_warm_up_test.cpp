#include "model/optimizer/variance_warm_up.hpp"

#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>

#include "catch.hpp"

namespace pipetrain::test {
namespace {

using Norm = std::function<double(std::int64_t step)>;

// Returns the step after which the moments are frozen, 0 for never, from the whole history of their norms.
std::int64_t expected_end(double beta2, std::int64_t window, std::int64_t least, std::int64_t steps, const Norm& norm) {
  std::deque<double> history = {0};
  for (std::int64_t step = 1; step <= steps; ++step) {
    history.push_back(beta2 * history.back() + (1 - beta2) * norm(step) * norm(step));
    if (step % window != 0 || step < least) continue;
    const double now = history[static_cast<std::size_t>(step)], earlier = history[static_cast<std::size_t>(step - window)];
    if (std::min(now, earlier) >= 0.96 * std::max(now, earlier) && earlier > 0) return step;
  }
  return 0;
}

std::int64_t end_of(double beta2, std::int64_t least, std::int64_t steps, const Norm& norm) {
  VarianceWarmUp warm_up(beta2, least, {});
  for (std::int64_t step = 1; step <= steps; ++step) {
    warm_up.applied(norm(step) / 0.25, 0.25, step);
    warm_up = VarianceWarmUp(beta2, least, warm_up.state());  // as a resumed run does
  }
  return warm_up.state().frozen_after;
}

}  // namespace

TEST_CASE("second moments are frozen once their norm has settled, and not before the learning rate's warm-up", "[compress]") {
  const Norm steady = [](std::int64_t) { return 2.0; };
  const Norm falling = [](std::int64_t step) { return 1 + std::exp(-static_cast<double>(step) / 60); };
  const Norm growing = [](std::int64_t step) { return static_cast<double>(step); };
  for (const std::int64_t least : {0, 130}) {
    for (const Norm& norm : {steady, falling}) {
      const std::int64_t expected = expected_end(0.95, 20, least, 1000, norm);
      CHECK(expected >= std::max<std::int64_t>(least, 40));
      CHECK(end_of(0.95, least, 1000, norm) == expected);
    }
  }
  CHECK(end_of(0.95, 0, 300, growing) == 0);
  CHECK(end_of(0.95, 0, 300, [](std::int64_t) { return 0.0; }) == 0);
  CHECK(end_of(1, 0, 100, steady) == 0);
}

TEST_CASE("second moments change for two thirds of all steps at least, and while the learning rate warms up", "[compress]") {
  CHECK(least_warm_up({.warmup_steps = 0, .total_steps = 2000}) == 1334);
  CHECK(least_warm_up({.warmup_steps = 1500, .total_steps = 2000}) == 1500);
  CHECK(least_warm_up({}) == 0);
}

TEST_CASE("gradients in 1 bit are multiplied by the mean factor of clipping before them", "[compress]") {
  VarianceWarmUp warm_up(0.95, 100, {});
  for (std::int64_t step = 1; step <= 100; ++step) {
    CHECK(warm_up.gradient_factor() == 1);
    warm_up.applied(4, step % 2 == 0 ? 0.25 : 0.75, step);
  }
  REQUIRE(warm_up.state().frozen_after == 100);
  CHECK(warm_up.gradient_factor() == Approx(0.5).epsilon(0.05));
  const double factor = warm_up.gradient_factor();
  warm_up.applied(1, 1, 101);
  CHECK(warm_up.gradient_factor() == factor);
}

}  // namespace pipetrain::test
