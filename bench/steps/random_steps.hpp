// Random steps that the simulator and the real stage actors run, the actors under CAF's testing scheduler with a virtual clock.
// Both must run the same actions at the same times.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "actors/engine/caf.hpp"
#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/simulate/cost.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain::bench {

struct RandomStep {
  std::string description;
  schedules::Plan plan;
  schedules::Order order = schedules::Order::planned;
  schedules::Costs costs;  // in microseconds
  // Routing gives each microbatch another time in each chunk: actions take their costs times random factors of this deviation.
  double spread = 0;
  std::uint64_t seed = 0;
};
// A pure function of the seed: any schedule but braided-v in any order that it allows, 1 to 6 stages, 1 to 12 microbatches, and
// costs that differ between stages and between microbatches.
RandomStep random_step(std::uint64_t seed);

// Lets virtual time pass until the step has ended. Throws std::runtime_error if the actors wait for ever.
void run_until_ready(caf::scheduler::test_coordinator& scheduler, const std::future<StepOutcome>& outcome);
// Runs one step of the plan with the actors, whose actions take these times. Returns the stages' traces.
std::vector<StageTrace> run_timed_actors(const schedules::Plan& plan, schedules::Order order, const schedules::Costs& costs,
                                         double spread = 0, std::uint64_t seed = 0);
// Returns the actions of a stage that compute, with the times from `begin` on in microseconds.
std::vector<schedules::Span> spans_of(const StageTrace& trace, std::chrono::steady_clock::time_point begin);

// Returns the first difference between the two runs in one line; nothing if each stage runs the same actions in the same order,
// and each begins within 0.1 microseconds of the other's time. The actors' times are whole nanoseconds.
std::string difference_of(const RandomStep& step);

}  // namespace pipetrain::bench
