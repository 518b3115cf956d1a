// The options of `pipetrain simulate`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"
#include "apps/simulate/failure_options.hpp"
#include "apps/simulate/simulate_costs.hpp"
#include "schedules/plan/order.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

struct SimulateOptions {
  int pp = 4, microbatches = 16, slices = 1;
  std::string schedule = "1f1b";                // a schedule's name or "all"; the plan's name where there is a plan
  std::shared_ptr<const schedules::Plan> plan;  // from a file; may be null
  std::optional<int> chunks;                    // not given: each schedule's own
  schedules::Order order = schedules::Order::planned;
  bool post_validation = false;  // steps that begin before the verdict on the one before, see schedules::simulate_following()
  double offload_fraction = 0;   // of each stage's microbatches, see schedules::offload_activations()
  StepTimes times;
  std::optional<Profile> profile;  // instead of the times above
  Cut cut;                         // of the profile's model; empty: the profile's own, in other layouts by cost
  double solver_seconds = 10;      // infinite where only iterations are given
  std::optional<std::int64_t> solver_iterations;
  std::vector<double> slots;  // microbatches that a stage can hold: none, one for all, or one per stage
  double jitter = 0;
  int runs = 1;
  std::uint64_t seed = 0;
  std::optional<FailureOptions> failures;
  bool json = false;
  std::optional<std::filesystem::path> svg, html, trace, csv, plan_out;
  std::vector<std::string> notes;  // for stderr, once nothing can end in exit status 2 any more
};

// `arguments` are those after the command's name. Reads the plan and the profile; writes nothing. Throws Error(input).
SimulateOptions parse_simulate_options(const std::vector<std::string>& arguments, const Environment& environment);

std::string simulate_help();

}  // namespace pipetrain
