// Actions that sometimes take longer, sometimes shorter than their cost.
#include "schedules/simulate/jitter.hpp"

#include <cmath>
#include <stdexcept>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain::schedules;

TEST_CASE("the same seed gives the same jitter, in every order and run") {
  const Plan plan = build_schedule("1f1b", {4, 1, 12});
  const Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
  SimulationOptions options;
  options.jitter = 0.2;
  options.seed = 5;
  const JitterResult a = simulate_jitter(plan, costs, 9, options), b = simulate_jitter(plan, costs, 9, options);
  CHECK(a.makespans == b.makespans);
  CHECK(a.median <= a.p95);
  CHECK(a.makespans[0] != a.makespans[1]);
  options.order = Order::ready;
  const Timeline ready = simulate(plan, costs, options);
  options.order = Order::planned;
  const Timeline planned = simulate(plan, costs, options);
  for (int s = 0; s < 4; ++s) {
    double busy_ready = 0, busy_planned = 0;
    for (const Span& span : ready.stages[static_cast<std::size_t>(s)]) busy_ready += span.end - span.start;
    for (const Span& span : planned.stages[static_cast<std::size_t>(s)]) busy_planned += span.end - span.start;
    CHECK(busy_ready == Approx(busy_planned));
  }
  CHECK_THROWS_AS(simulate_jitter(plan, costs, 0, options), std::invalid_argument);
}

TEST_CASE("jitter has the deviation that was asked for") {
  const Plan plan = build_schedule("gpipe", {1, 1, 4000});
  SimulationOptions options;
  options.jitter = 0.3;
  double sum = 0, squares = 0;
  const Timeline timeline = simulate(plan, Costs::uniform(plan.placement, 1, 0.5, 0.5), options);
  for (const Span& span : timeline.stages[0]) {
    const double z = std::log(span.end - span.start) / 0.3;
    sum += z;
    squares += z * z;
  }
  CHECK(sum / 8000 == Approx(0).margin(0.05));
  CHECK(squares / 8000 == Approx(1).margin(0.05));
}
