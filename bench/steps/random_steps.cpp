#include "bench/steps/random_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/jitter.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain::bench {
namespace {

using namespace std::chrono_literals;
using schedules::Action;
using schedules::Order;

// Not a standard distribution, so that a seed gives the same steps with every library.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  int number(int from, int to) { return from + static_cast<int>(bits() % static_cast<std::uint64_t>(to - from + 1)); }
  bool flag() { return number(0, 1) == 1; }

 private:
  std::uint64_t bits() {  // splitmix64 (Steele, Lea, Flood 2014)
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

bool is_timed(const Action& action) { return is_compute(action.kind) || is_custom(action.kind); }

std::string difference_of_stage(const std::vector<schedules::Span>& simulated, const std::vector<schedules::Span>& real,
                                int chunks) {
  std::vector<schedules::Span> expected;
  std::copy_if(simulated.begin(), simulated.end(), std::back_inserter(expected),
               [](const schedules::Span& span) { return is_timed(span.action); });
  if (expected.size() != real.size()) return fmt::format("{} actions in place of {}", real.size(), expected.size());
  for (std::size_t i = 0; i < real.size(); ++i) {
    const auto shown = [&](const schedules::Span& span) {
      return fmt::format("{}@{:.3f}", to_string(span.action, chunks), span.start);
    };
    if (real[i].action != expected[i].action || std::abs(real[i].start - expected[i].start) > 0.1)
      return fmt::format("{} in place of {}", shown(real[i]), shown(expected[i]));
  }
  return "";
}

// Draws any schedule but that of braids: a stage launches both actions of a braid together, once the inputs of both have been
// launched, and the simulator knows no times of launches. It is exact where tensor-parallel ranks hide their communication,
// which actors without devices do not.
const schedules::ScheduleInfo& drawn_schedule(Draws& draws) {
  const auto& all = schedules::all_schedules();
  for (;;) {
    const auto& schedule = all[static_cast<std::size_t>(draws.number(0, static_cast<int>(all.size()) - 1))];
    if (schedule.name != "braided-v") return schedule;
  }
}

}  // namespace

RandomStep random_step(std::uint64_t seed) {
  Draws draws(seed);
  const auto& schedule = drawn_schedule(draws);
  const bool ready = schedule.has_ready_rule && draws.flag();
  // One stage that chooses by what is ready may begin before all tokens of the step's first instant have come.
  const int stages = draws.number(ready ? 2 : 1, 6), microbatches = draws.number(1, 12);
  const int chunks = schedule.chunks_can_vary ? draws.number(1, 3) : schedule.default_chunks;
  RandomStep step{.description = {},
                  .plan = with_end_of_step(schedules::build_schedule(schedule.name, {stages, chunks, microbatches}), {}),
                  .order = ready ? Order::ready : Order::planned,
                  .costs = {},
                  .spread = draws.number(0, 5) * 0.1,
                  .seed = seed};
  std::vector<double> forward, input_grad, weight_grad;
  for (int stage = 0; stage < stages; ++stage) {
    forward.push_back(draws.number(500, 2000) + draws.number(0, 999) * 1e-3);
    input_grad.push_back(draws.number(500, 2000) + draws.number(0, 999) * 1e-3);
    weight_grad.push_back(draws.number(200, 2000) + draws.number(0, 999) * 1e-3);
  }
  step.costs = schedules::Costs::per_stage(step.plan.placement, forward, input_grad, weight_grad);
  step.description = fmt::format("seed {}: {}, {} stages, {} chunks, {} microbatches, {}, spread {:.1f}", seed, schedule.name,
                                 stages, chunks, microbatches, step.order == Order::ready ? "ready" : "planned", step.spread);
  return step;
}

void run_until_ready(caf::scheduler::test_coordinator& scheduler, const std::future<StepOutcome>& outcome) {
  scheduler.run();
  while (outcome.wait_for(0s) != std::future_status::ready && scheduler.has_pending_timeout()) {
    scheduler.trigger_timeout();
    scheduler.run();
  }
  if (outcome.wait_for(0s) != std::future_status::ready)
    throw std::runtime_error("the actors wait, and no time is left to pass");
}

std::vector<StageTrace> run_timed_actors(const schedules::Plan& plan, Order order, const schedules::Costs& costs, double spread,
                                         std::uint64_t seed) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system{config};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  PipelineOptions options;
  options.plan = plan;
  options.order = order;
  options.system = &system;
  options.virtual_time = true;
  const auto duration = [&](StageId stage, const Action& action) {
    const double factor = spread > 0 ? schedules::jitter_factor(spread, seed, stage.stage, action) : 1;
    return std::chrono::nanoseconds(std::llround(costs.of(stage.stage, action) * factor * 1000));
  };
  auto pipeline = std::make_unique<Pipeline>(
      options, [&](StageId id, const schedules::StageNeeds&) { return make_sleeping_compute(id, duration); },
      [](int) { return make_empty_source(); });
  auto outcome = pipeline->start_step({1, plan.microbatches, 1, 0}, [](const auto&) { return Verdict{}; });
  run_until_ready(scheduler, outcome);
  auto stages = outcome.get().stages;
  pipeline.reset();
  scheduler.run();
  return stages;
}

std::vector<schedules::Span> spans_of(const StageTrace& trace, std::chrono::steady_clock::time_point begin) {
  std::vector<schedules::Span> spans;
  for (const auto& one : trace.actions) {
    if (!is_timed(one.action)) continue;
    schedules::Span span;
    span.action = one.action;
    span.start = std::chrono::duration<double, std::micro>(one.times.start - begin).count();
    spans.push_back(span);
  }
  return spans;
}

std::string difference_of(const RandomStep& step) {
  const auto simulated =
      schedules::simulate(step.plan, step.costs, {.order = step.order, .jitter = step.spread, .seed = step.seed});
  const auto real = run_timed_actors(step.plan, step.order, step.costs, step.spread, step.seed);
  auto begin = std::chrono::steady_clock::time_point::max();
  for (const auto& stage : real) begin = std::min(begin, stage.actions.front().times.start);
  for (std::size_t stage = 0; stage < real.size(); ++stage) {
    const std::string difference =
        difference_of_stage(simulated.stages[stage], spans_of(real[stage], begin), step.plan.placement.chunks());
    if (!difference.empty()) return fmt::format("{}: stage {}: {}", step.description, stage, difference);
  }
  return "";
}

}  // namespace pipetrain::bench
