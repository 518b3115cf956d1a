// What a simulated step takes, as the command line of `pipetrain simulate` gives it.
#pragma once

#include <string>
#include <vector>

#include "apps/options/option_values.hpp"
#include "schedules/cost.hpp"

namespace pipetrain {

struct StepTimes {
  // Of a whole stage and one microbatch, shared by its chunks; one per stage. F and I with the exchanges between
  // tensor-parallel ranks.
  std::vector<double> forward, input_grad, weight_grad;
  std::vector<schedules::Link> edges;  // as Costs::set_edges() takes them
  std::string edge_option;             // that gave the fewest of them
  // End of step, of a whole stage; one per stage. Empty where not given.
  std::vector<double> reduce_grads, sum_replicated, sum_tied, norm, optimizer;
  double verdict = 0;
  bool ends = false;  // whether any of these is given

  schedules::EndOfStep end_of_step() const { return {!reduce_grads.empty(), !sum_replicated.empty(), !sum_tied.empty()}; }
  // Empty, or why the plan's edges are not all given, to follow the name of an option.
  std::string why_not(const schedules::Placement& placement) const;
  schedules::Costs costs(const schedules::Placement& placement) const;
};

// One value per stage, from one for all or a list; empty when the option is not given. Throws Error(input).
std::vector<double> per_stage(const OptionValues& values, const char* name, int pp, const OptionValues::Range& range);

// Every option that read_step_times() reads.
const std::vector<std::string>& step_time_options();
StepTimes read_step_times(const OptionValues& values, int pp);

}  // namespace pipetrain
