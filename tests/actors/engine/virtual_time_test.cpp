// The real stage actors under CAF's testing scheduler, compared with the simulator: the same actions at the same times.
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>

#include "actors/engine/caf.hpp"
#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "bench/steps/random_steps.hpp"
#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/simulate/following_steps.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain;
using namespace pipetrain::bench;
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

// Returns "F0@0 F1@1000 ..." for the compute and custom actions, in order of time.
std::string text(const std::vector<schedules::Span>& spans) {
  std::string line;
  for (const auto& span : spans) {
    if (is_compute(span.action.kind) || is_custom(span.action.kind))
      line += to_string(span.action, 2) + "@" + std::to_string(std::llround(span.start)) + " ";
  }
  return line;
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
  const auto real = run_timed_actors(plan, Order::planned, costs);
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
          const auto real = run_timed_actors(plan, order, costs);
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

TEST_CASE("random steps run alike in the simulator and with the actors in virtual time") {
  const auto seed = static_cast<std::uint64_t>(std::random_device{}()) * 1000;
  for (std::uint64_t i = 0; i < 200; ++i) CHECK(difference_of(random_step(seed + i)) == "");
}

namespace {

// Returns the share of a step's time in which stages are idle once steps follow each other, including the time between steps.
double steady_bubble(const std::string& schedule, int stages, int microbatches, bool early, double clipped = 0,
                     std::chrono::nanoseconds preview = 150us) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system{config};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  PipelineOptions options;
  options.plan = with_end_of_step(
      schedules::build_schedule(schedule, {stages, schedules::find_schedule(schedule)->default_chunks, microbatches}), {});
  options.begins_before_verdict = stages_that_wait(options.plan, schedules::validate(options.plan));
  options.system = &system;
  options.virtual_time = true;
  const int chunks = options.plan.placement.chunks();
  // A stage's forward takes 1 ms, its step of the optimizer a quarter of that.
  const auto duration = [chunks, preview](StageId, const Action& action) -> std::chrono::nanoseconds {
    if (action.kind == ActionKind::optimizer) return 250us;
    if (action.kind == ActionKind::preview) return preview;
    if (action.kind == ActionKind::norm) return 50us;
    return std::chrono::nanoseconds(1ms) * (action.kind == ActionKind::backward ? 2 : 1) / chunks;
  };
  auto pipeline = std::make_unique<Pipeline>(
      options, [&](StageId id, const schedules::StageNeeds&) { return make_sleeping_compute(id, duration); },
      [](int) { return make_empty_source(); });
  constexpr int steps = 20;
  double busy = 0;
  std::chrono::steady_clock::time_point first, last;
  for (int step = 1; step <= steps; ++step) {
    const auto info = [&](int number) { return StepInfo{number, microbatches, 1, 0}; };
    const bool confirms = step > clipped * steps;
    auto outcome = pipeline->start_step(
        info(step),
        [&](const auto&) {
          return Verdict{true, 1, confirms};
        },
        early && step < steps ? std::optional(info(step + 1)) : std::nullopt);
    run_until_ready(scheduler, outcome);
    for (const StageTrace& stage : outcome.get().stages) {
      if (stage.stage.stage == 0 && step == 5) first = stage.actions.back().times.end;
      if (stage.stage.stage == 0 && step == 15) last = stage.actions.back().times.end;
      if (step <= 5 || step > 15) continue;
      for (const TracedAction& one : stage.actions)
        if (one.action.kind != ActionKind::preview)
          busy += std::chrono::duration<double>(one.times.end - one.times.start).count();
    }
  }
  pipeline.reset();
  scheduler.run();
  return 1 - busy / (stages * std::chrono::duration<double>(last - first).count());
}

}  // namespace

TEST_CASE("steps that begin early close the gap between two steps", "[post-validation]") {
  for (const char* schedule : {"zb-h2", "zb-v"}) {
    for (const int stages : {2, 4}) {
      const double waiting = steady_bubble(schedule, stages, 16, false), early = steady_bubble(schedule, stages, 16, true);
      const double redone = steady_bubble(schedule, stages, 16, true, 1);
      INFO(schedule << " pp " << stages << ": " << 100 * waiting << " % off, " << 100 * early << " % on, " << 100 * redone
                    << " % on where every step is taken back");
      CHECK(early < 0.004);
      CHECK(early < 0.4 * waiting);
      CHECK(redone > waiting);
      CHECK(redone < waiting + 0.05);
    }
  }
  for (const auto& schedule : schedules::all_schedules())
    CHECK(steady_bubble(std::string(schedule.name), 4, 12, true) <=
          steady_bubble(std::string(schedule.name), 4, 12, false) + 0.005);
}

TEST_CASE("steps that follow each other are predicted as the actors run them, early or not", "[post-validation]") {
  for (const auto& schedule : schedules::all_schedules()) {
    for (const int stages : {2, 4}) {
      const auto plan = with_end_of_step(schedules::build_schedule(schedule.name, {stages, schedule.default_chunks, 12}), {});
      const auto needs = schedules::validate(plan);
      auto costs = schedules::Costs::uniform(plan.placement, 1, 1, 1);
      costs.norm.assign(plan.stages.size(), 0.05);
      costs.optimizer.assign(plan.stages.size(), 0.25);
      const auto off = schedules::simulate_following(plan, costs, needs);
      const auto on = schedules::simulate_following(plan, costs, needs, {.early = stages_that_wait(plan, needs)});
      INFO(schedule.name << " pp " << stages << ": " << off.step << " off, " << on.step << " on");
      CHECK(off.step == Approx(summarize(schedules::simulate(plan, costs, needs)).makespan));
      CHECK(off.bubble == Approx(steady_bubble(std::string(schedule.name), stages, 12, false)).margin(1e-6));
      CHECK(on.bubble == Approx(steady_bubble(std::string(schedule.name), stages, 12, true, 0, 250us)).margin(0.002));
      CHECK(on.step <= off.step * 1.005);
      if (schedule.name == "zb-h2" || schedule.name == "zb-v") CHECK(on.bubble < 0.6 * off.bubble);
    }
  }
}

TEST_CASE("steps of models with tied embeddings follow each other in every schedule", "[post-validation]") {
  for (const auto& schedule : schedules::all_schedules()) {
    const auto plan = with_end_of_step(schedules::build_schedule(schedule.name, {2, schedule.default_chunks, 8}),
                                       {.reduce_grads = true, .sum_tied = true});
    const auto needs = schedules::validate(plan);
    auto costs = schedules::Costs::uniform(plan.placement, 1, 1, 1);
    costs.norm.assign(plan.stages.size(), 0.05);
    costs.optimizer.assign(plan.stages.size(), 0.25);
    for (auto& stage : costs.chunks)
      for (schedules::ChunkCost& chunk : stage) chunk.sum_tied = 0.1, chunk.reduce_grads = 0.2;
    INFO(schedule.name);
    const auto off = schedules::simulate_following(plan, costs, needs);
    CHECK(off.step == Approx(summarize(schedules::simulate(plan, costs, needs)).makespan));
    CHECK(schedules::simulate_following(plan, costs, needs, {.early = stages_that_wait(plan, needs)}).step <= off.step * 1.005);
  }
}
