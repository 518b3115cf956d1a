// The real stage actors under CAF's testing scheduler, against the simulator: the same actions at the same times.
#include <algorithm>
#include <chrono>
#include <memory>

#include "actors/engine/caf.hpp"
#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "catch.hpp"
#include "schedules/builders.hpp"
#include "schedules/plan_text.hpp"
#include "schedules/simulate.hpp"

using namespace pipetrain;
using namespace std::chrono_literals;
using schedules::Action;
using schedules::ActionKind;
using schedules::Order;

namespace {

// Different for every kind and stage, so that ties are rare; per stage, shared by its chunks.

schedules::Costs costs_of(const schedules::Placement& placement) {
  std::vector<double> forward, input_grad, weight_grad;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    forward.push_back(1000 + 10 * stage);
    input_grad.push_back(1120 - 6 * stage);
    weight_grad.push_back(880 + 2 * stage);
  }
  return schedules::Costs::per_stage(placement, forward, input_grad, weight_grad);
}

std::vector<StageTrace> run_actors(const schedules::Plan& plan, Order order, const schedules::Costs& costs) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system{config};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  PipelineOptions options;
  options.plan = plan;
  options.order = order;
  options.system = &system;
  options.virtual_time = true;
  auto pipeline = std::make_unique<Pipeline>(
      options,
      [&costs](StageId id, const schedules::StageNeeds&) {
        return make_sleeping_compute(id, [&costs](StageId stage, const Action& action) -> std::chrono::nanoseconds {
          return std::chrono::nanoseconds(static_cast<std::int64_t>(costs.of(stage.stage, action) * 1000));
        });
      },
      [](int) { return make_empty_source(); });
  auto outcome = pipeline->start_step({1, plan.microbatches, 1, 0}, [](const auto&) { return Verdict{}; });
  scheduler.run();
  while (outcome.wait_for(0s) != std::future_status::ready && scheduler.has_pending_timeout()) {
    scheduler.trigger_timeout();
    scheduler.run();
  }
  REQUIRE(outcome.wait_for(0s) == std::future_status::ready);
  auto stages = outcome.get().stages;
  pipeline.reset();
  scheduler.run();
  return stages;
}

// "F0@0 F1@1000 ..." of the compute and of custom actions, in order of time.
std::string text(const std::vector<schedules::Span>& spans) {
  std::string line;
  for (const auto& span : spans) {
    if (is_compute(span.action.kind) || is_custom(span.action.kind))
      line += to_string(span.action, 2) + "@" + std::to_string(std::llround(span.start)) + " ";
  }
  return line;
}

std::vector<schedules::Span> spans_of(const StageTrace& trace, std::chrono::steady_clock::time_point begin) {
  std::vector<schedules::Span> spans;
  for (const auto& one : trace.actions) {
    schedules::Span span;
    span.action = one.action;
    span.start = std::chrono::duration<double, std::micro>(one.times.start - begin).count();
    spans.push_back(span);
  }
  return spans;
}

}  // namespace

TEST_CASE("the actors in virtual time run custom actions when the simulator says") {
  const auto plan = schedules::parse_plan(
      "schedule: mine\nmicrobatches: 3\n"
      "custom X0: fetch\ncustom X1: send after 0:X0 2:F0 uses nic\ncustom X2: send after 1:B0 uses nic\n"
      "stage 0: X0 F0 F1 F2 B0 X2 B1 B2 N O\nstage 1: F0 F1 X1 B0 F2 B1 B2 N O\nstage 2: F0 B0 F1 B1 F2 B2 N O\n",
      "plan.txt");
  auto costs = costs_of(plan.placement);
  costs.custom = {333, 5000, 777};
  const auto simulated = schedules::simulate(plan, costs);
  const auto real = run_actors(plan, Order::planned, costs);
  const auto begin = real[0].actions.front().times.start;
  for (std::size_t stage = 0; stage < 3; ++stage) {
    CHECK(text(spans_of(real[stage], begin)) == text(simulated.stages[stage]));
    CHECK((text(simulated.stages[stage]).find('X') != std::string::npos) == (stage < 2));
  }
}

TEST_CASE("the actors in virtual time do what the simulator says, for every schedule") {
  for (const auto& schedule : schedules::all_schedules()) {
    for (const int stages : {2, 4}) {
      for (const int microbatches : {3, 8}) {
        for (const auto order : {Order::planned, Order::ready}) {
          if (order == Order::ready && !schedule.has_ready_rule) continue;
          const auto plan =
              with_end_of_step(schedules::build_schedule(schedule.name, {stages, schedule.default_chunks, microbatches}), {});
          const auto costs = costs_of(plan.placement);
          const auto simulated = schedules::simulate(plan, costs, {.order = order});
          const auto real = run_actors(plan, order, costs);
          auto begin = std::chrono::steady_clock::time_point::max();
          for (const auto& stage : real) begin = std::min(begin, stage.actions.front().times.start);
          for (int stage = 0; stage < stages; ++stage) {
            INFO(schedule.name << " pp " << stages << " m " << microbatches << (order == Order::ready ? " ready" : " planned")
                               << " stage " << stage);
            CHECK(text(spans_of(real[static_cast<std::size_t>(stage)], begin)) ==
                  text(simulated.stages[static_cast<std::size_t>(stage)]));
          }
        }
      }
    }
  }
}
