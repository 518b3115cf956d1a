// Plans by name and from files, for callers that may ask for anything.
#pragma once

#include <string>

#include "schedules/builders/builders.hpp"

namespace pipetrain {

// The compute of one step; chunks 0: the schedule's own. Throws std::invalid_argument, also for a shape beyond what is
// simulated or searched in reasonable time.
schedules::Plan build_any_plan(const std::string& schedule, schedules::ScheduleShape shape);

// PyTorch's CSV where the name ends in .csv, else our text; a plan without a name of its own is called after its file. Throws
// Error(input), schedules::PlanFileError.
schedules::Plan read_any_plan(const std::string& path);

// The plan. Throws Error(input) where it has slices: stages of other programs take whole microbatches.
schedules::Plan without_slices(schedules::Plan plan);

// Whether what ends a step is there.
bool has_end_of_step(const schedules::Plan& plan);

// With N, O and what else is asked for, appended to a plan that has none. Throws Error(input) where it has.
schedules::Plan end_plan(const schedules::Plan& compute, const schedules::EndOfStep& end);

}  // namespace pipetrain
