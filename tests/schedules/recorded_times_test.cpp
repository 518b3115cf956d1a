// Steps taken apart and put together again; the simulator replaces a run, so that the costs are known.
#include "schedules/simulate/recorded_times.hpp"

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain::schedules;

namespace {

Costs recorded_costs(const Placement& placement, double p2p, double slow_stage = 1) {
  std::vector<double> forward, input_grad, weight_grad;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const double factor = stage == 1 ? slow_stage : 1;
    forward.push_back(factor * (1.0 + 0.13 * stage));
    input_grad.push_back(factor * (1.2 - 0.07 * stage));
    weight_grad.push_back(factor * (0.8 + 0.03 * stage));
  }
  Costs costs = Costs::per_stage(placement, forward, input_grad, weight_grad, p2p);
  costs.norm.assign(forward.size(), 0.1);
  costs.optimizer.assign(forward.size(), 0.2);
  costs.verdict = 0.05;
  return costs;
}

Timeline again(const Plan& plan, const std::vector<StageNeeds>& needs, const RecordedTimes& times) {
  return simulate(plan, Costs::uniform(plan.placement, 1, 1, 1), needs, {.recorded = &times});
}

void check_same(const Timeline& a, const Timeline& b) {
  REQUIRE(a.stages.size() == b.stages.size());
  for (std::size_t stage = 0; stage < a.stages.size(); ++stage) {
    REQUIRE(a.stages[stage].size() == b.stages[stage].size());
    for (std::size_t i = 0; i < a.stages[stage].size(); ++i) {
      CHECK(a.stages[stage][i].action == b.stages[stage][i].action);
      CHECK(a.stages[stage][i].start == Approx(b.stages[stage][i].start).margin(1e-9));
      CHECK(a.stages[stage][i].end == Approx(b.stages[stage][i].end).margin(1e-9));
    }
  }
}

}  // namespace

TEST_CASE("a step's own times give the step back, for every schedule") {
  for (const auto& schedule : all_schedules()) {
    for (const double p2p : {0.0, 0.3}) {
      INFO(schedule.name << " p2p " << p2p);
      const Plan plan = with_end_of_step(build_schedule(schedule.name, {4, schedule.default_chunks, 8}), {.sum_tied = true});
      const auto needs = validate(plan);
      const Timeline run = simulate(plan, recorded_costs(plan.placement, p2p), needs);
      check_same(again(plan, needs, recorded_times(plan, needs, {}, run)), run);
    }
  }
}

TEST_CASE("a step with custom actions gives its times back too") {
  const Plan plan = parse_plan(
      "schedule: mine\nmicrobatches: 2\ncustom X0: a after 1:B0\ncustom X1: b after 0:X0\n"
      "stage 0: F0 F1 B0 X0 B1 N O\nstage 1: F0 B0 F1 X1 B1 N O\n",
      "plan.txt");
  const auto needs = validate(plan);
  Costs costs = recorded_costs(plan.placement, 0.3);
  costs.custom = {2.5, 0.7};
  const Timeline run = simulate(plan, costs, needs);
  check_same(again(plan, needs, recorded_times(plan, needs, {}, run)), run);
}

TEST_CASE("a stage's factor gives the step of a stage that is so much slower") {
  for (const auto& schedule : all_schedules()) {
    INFO(schedule.name);
    const Plan plan = build_schedule(schedule.name, {3, schedule.default_chunks, 6});
    const auto needs = validate(plan);
    RecordedTimes times = recorded_times(plan, needs, {}, simulate(plan, recorded_costs(plan.placement, 0), needs));
    times.scale_stage(1, 1.5);
    check_same(again(plan, needs, times), simulate(plan, recorded_costs(plan.placement, 0, 1.5), needs));
  }
}

TEST_CASE("a link's factor is that of its messages, both ways, and of no others") {
  const Plan plan = build_schedule("1f1b", {3, 1, 6});
  const auto needs = validate(plan);
  RecordedTimes times = recorded_times(plan, needs, {}, simulate(plan, recorded_costs(plan.placement, 0.5), needs));
  const auto before = times.transfers();
  CHECK(before[0] == Approx(0.5));
  CHECK(before[1] == Approx(0.5));
  times.scale_link(plan.placement, 0, 1, 0.5);
  CHECK(times.transfers()[0] == Approx(0.25));
  CHECK(times.transfers()[1] == Approx(0.5));
  CHECK(summarize(again(plan, needs, times)).makespan <
        summarize(simulate(plan, recorded_costs(plan.placement, 0.5), needs)).makespan);
}

TEST_CASE("times of another plan are refused") {
  const Plan plan = build_schedule("1f1b", {2, 1, 4}), other = build_schedule("gpipe", {2, 1, 4});
  const auto needs = validate(plan);
  const Timeline run = simulate(other, recorded_costs(other.placement, 0));
  CHECK_THROWS_AS(recorded_times(plan, needs, {}, run), std::invalid_argument);
}
