// SimulatedPlans makes the plans that simulate was asked for, and finds the costs of each. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "actors/training/records/profile.hpp"
#include "apps/simulate/simulate_options.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/search/auto_schedule.hpp"
#include "schedules/search/solver.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain {

class SimulatedPlans {
 public:
  // The options outlive it.
  explicit SimulatedPlans(const SimulateOptions& options) : options_(options) {}

  // Builds the plan of a schedule. Throws Error(input).
  schedules::Plan build(const schedules::ScheduleInfo& info);
  // Returns the plan with moves of activations, if these are asked for. Throws Error(input).
  schedules::Plan moved(schedules::Plan plan) const;
  // Adds the end of step for which there are costs, unless the plan has its own.
  schedules::Plan ended(schedules::Plan compute) const;

  // Returns an empty text if the costs are known for this plan, else what they lack.
  std::string why_not(const schedules::Plan& plan) const;
  // Throws Error(input) if they are not known.
  void refuse_unknown_costs(const schedules::Plan& plan) const;
  schedules::Costs costs_of(const schedules::Plan& plan) const;
  // Returns true if the costs are those of a profile of another layout, whose blocks take new places.
  bool regroups(const schedules::Plan& plan) const;
  // The queues have the run's sizes only if the simulation predicts a run.
  schedules::QueueRoom room() const;

  // Set if the last plan is the solver's.
  const std::optional<schedules::Solved>& solved() const { return solved_; }

 private:
  // Returns true if the run was profiled in this layout.
  bool was_profiled(const schedules::Placement& placement, bool split) const;
  // Returns the profile itself, or the times that its blocks would take in this layout.
  Profile profile_of(const schedules::Placement& placement, bool split) const;
  schedules::Plan build_auto_plan() const;
  schedules::Plan build_solved_plan();
  schedules::AutoRequest auto_request() const;

  const SimulateOptions& options_;
  std::optional<schedules::Solved> solved_;
};

}  // namespace pipetrain
