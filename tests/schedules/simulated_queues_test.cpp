#include "schedules/simulate/simulated_queues.hpp"

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/validate.hpp"

using namespace pipetrain::schedules;

namespace {

const Plan& plan_of_two_stages() {
  static const Plan plan = build_schedule("1f1b", {2, 1, 16});
  return plan;
}

int launches_of(SimulatedProtocols& protocols, int stage) {
  int actions = 0;
  while (protocols.of(stage).next() != nullptr) ++actions;
  return actions;
}

}  // namespace

TEST_CASE("the feeders fill all slots at once, and each slot again when it becomes free") {
  const Plan& plan = plan_of_two_stages();
  const auto needs = validate(plan, Order::planned, {});
  SimulatedProtocols protocols(plan, Order::planned, 8);
  SimulatedQueues queues(plan, needs, QueueRoom::reserved, protocols);
  const int fed = needs[0].chunks[0].activation_slots;
  REQUIRE(fed < 16);
  for (int m = 0; m < fed; ++m) CHECK(queues.activation(0, m) == 0);
  queues.free_slot(InputKind::activation, 0, 2.5);
  CHECK(queues.activation(0, fed) == 2.5);
}

TEST_CASE("a slot between stages is taken at the time at which it became free, oldest first") {
  const Plan& plan = plan_of_two_stages();
  const auto needs = validate(plan, Order::planned, {});
  SimulatedProtocols protocols(plan, Order::planned, 8);
  SimulatedQueues queues(plan, needs, QueueRoom::reserved, protocols);
  const int slots = needs[1].chunks[0].activation_slots;
  for (int i = 0; i < slots; ++i) CHECK(queues.take_activation_slot(1) == 0);
  queues.free_slot(InputKind::activation, 1, 3);
  CHECK(queues.take_activation_slot(1) == 3);
}

TEST_CASE("with room for all, the first stage launches its warm-up without a slot of the second") {
  const Plan& plan = plan_of_two_stages();
  const auto needs = validate(plan, Order::planned, {});
  SimulatedProtocols protocols(plan, Order::planned, 8);
  SimulatedQueues queues(plan, needs, QueueRoom::all, protocols);
  CHECK(queues.take_activation_slot(1) == 0);
  CHECK(launches_of(protocols, 0) == 2);  // then B0 waits for its gradient
  protocols.input_arrived(InputKind::gradient, 0, 0);
  CHECK(launches_of(protocols, 0) == 2);
}

TEST_CASE("a simulation that cannot end says which stage waits for what") {
  const Plan& plan = plan_of_two_stages();
  const SimulatedProtocols protocols(plan, Order::planned, 2);
  CHECK_THROWS_WITH(protocols.expect_end(), Catch::Matchers::Contains("stage 0: F0 waits for the activation"));
}
