#include "schedules/simulate/action_times.hpp"

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/jitter.hpp"

using namespace pipetrain::schedules;

namespace {

const Action timed_f0{ActionKind::forward, 0, 0}, timed_b1{ActionKind::backward, 0, 1};

}  // namespace

TEST_CASE("times are those of the costs, each multiplied by the jitter of its action") {
  const Costs costs = Costs::uniform(Placement::looping(2, 1), 1, 2, 3, 0.5);
  SimulationOptions options;
  const ActionTimes times(costs, options);
  CHECK(times.of(0, 0, timed_f0) == 1);
  CHECK(times.of(1, 0, timed_b1) == 5);
  CHECK(times.transfer(InputKind::activation, 1, 0) == 0.5);
  CHECK(times.transfer(InputKind::gradient, 0, 0) == 0.5);
  CHECK(times.delay(0, 0) == 0);
  options.jitter = 0.2;
  options.seed = 7;
  CHECK(times.of(1, 0, timed_b1) == 5 * jitter_factor(0.2, 7, 1, timed_b1));
}

TEST_CASE("recorded times replace the costs") {
  const Costs costs = Costs::uniform(Placement::looping(2, 1), 1, 1, 1);
  RecordedTimes recorded{
      .times = {{4, 5}, {6}}, .delays = {{0.25, 0}, {0}}, .activations = {{0}, {9}}, .gradients = {{8}, {0}}};
  SimulationOptions options;
  options.recorded = &recorded;
  const ActionTimes times(costs, options);
  CHECK(times.of(0, 1, timed_b1) == 5);
  CHECK(times.delay(0, 0) == 0.25);
  CHECK(times.transfer(InputKind::activation, 1, 0) == 9);
  CHECK(times.transfer(InputKind::gradient, 0, 0) == 8);
}

TEST_CASE("a braid hides communication behind the other action's compute, and only where there is some") {
  Costs costs = Costs::uniform(Placement::looping(1, 1), 2, 1, 1);
  const SimulationOptions options;
  const ActionTimes times(costs, options);
  CHECK_FALSE(times.hides_in_braid(0, timed_f0));
  CHECK(times.of_braid(0, timed_f0, timed_b1).end == 4);  // one after the other
  costs.chunks[0][0].communication = 0.5;
  CHECK(times.hides_in_braid(0, timed_f0));
  CHECK(times.of_braid(0, timed_f0, timed_b1).end < 4);
}
