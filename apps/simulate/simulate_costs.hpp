// The times of a simulated step, from the command line of `pipetrain simulate`.
#pragma once

#include <string>
#include <vector>

#include "apps/options/option_values.hpp"
#include "schedules/simulate/stage_times.hpp"

namespace pipetrain {

struct StepTimes : schedules::StageTimes {  // F and I with the exchanges between tensor-parallel ranks
  std::string edge_option;                  // that gave the fewest of the edges
  bool ends = false;                        // true when a time of the end of step is given
  bool seconds = false;                     // times are in seconds; false: in a unit that the user knows

  // Empty, or why the plan's edges are not all given, to follow the name of an option.
  std::string why_not(const schedules::Placement& placement) const;
};

// Returns one value per stage, empty when the option is not given. The option gives one value for all stages or a list.
// Throws Error(input).
std::vector<double> per_stage(const OptionValues& values, const char* name, int pp);

// Returns one value per edge between stages, empty when the option is not given. The option gives one value for all edges, or
// one for each edge between neighbours, with or without the edge from the last stage to the first. Two stages have one edge.
// Throws Error(input).
std::vector<double> per_edge(const OptionValues& values, const char* name, int pp);

// Returns the options that read_step_times() reads.
OptionRows step_time_rows();
StepTimes read_step_times(const OptionValues& values, int pp);

}  // namespace pipetrain
