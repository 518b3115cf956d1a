// Makes plans by name and from files, with checks for arbitrary requests.
#pragma once

#include <string>

#include "schedules/builders/builders.hpp"

namespace pipetrain {

// Returns the compute of one step; chunks 0: the schedule's own. Throws std::invalid_argument, also for a shape that
// cannot be simulated or searched in reasonable time.
schedules::Plan build_any_plan(const std::string& schedule, schedules::ScheduleShape shape);

// Reads PyTorch's CSV where the name ends in .csv, else our text; a plan without a name gets that of its file. Throws
// Error(input), schedules::PlanFileError.
schedules::Plan read_any_plan(const std::string& path);

// Returns the plan. Throws Error(input) where it has slices: stages of other programs take whole microbatches.
schedules::Plan without_slices(schedules::Plan plan);

// True when the plan has actions that end a step.
bool has_end_of_step(const schedules::Plan& plan);

// Appends N, O and the requested actions to a plan without an end. Throws Error(input) where it has one.
schedules::Plan end_plan(const schedules::Plan& compute, const schedules::EndOfStep& end);

}  // namespace pipetrain
