#include "apps/simulate/simulated_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "actors/training/records/profile_layout.hpp"
#include "core/error.hpp"
#include "schedules/plan/activation_offload.hpp"

namespace pipetrain {

using schedules::Costs;
using schedules::Plan;
using schedules::ScheduleInfo;

std::string SimulatedPlans::why_not(const Plan& plan) const {
  if (!options_.cut.empty() && std::ssize(options_.cut) != plan.placement.virtual_stages())
    return fmt::format("--cut {} is of {} virtual stages, and it has {}", cut_text(options_.cut), options_.cut.size(),
                       plan.placement.virtual_stages());
  if (!options_.profile) {
    const auto why = options_.times.why_not(plan.placement);
    return why.empty() ? why : fmt::format("--{} {}", options_.times.edge_option, why);
  }
  try {
    profile_of(plan.placement, splits_backward(plan));
    return "";
  } catch (const Error& error) {
    return fmt::format("--costs is a profile of pp {} x chunks {}, not of this layout, and {}", options_.profile->pp,
                       options_.profile->chunks, error.what());
  }
}

bool SimulatedPlans::was_profiled(const schedules::Placement& placement, bool split) const {
  const Profile& measured = *options_.profile;
  return measured.placement() == placement && (measured.splits_backward() || !split) &&
         (options_.cut.empty() || options_.cut == measured.cut);
}

Profile SimulatedPlans::profile_of(const schedules::Placement& placement, bool split) const {
  const Profile& measured = *options_.profile;
  if (was_profiled(placement, split)) return measured;
  const bool same_places = options_.cut.empty() && measured.placement() == placement;
  return profile_for(measured, placement, split, same_places ? measured.cut : options_.cut);
}

void SimulatedPlans::refuse_unknown_costs(const Plan& plan) const {
  if (const auto why = why_not(plan); !why.empty()) throw Error(ErrorKind::input, why);
}

bool SimulatedPlans::regroups(const Plan& plan) const {
  return options_.profile && !was_profiled(plan.placement, splits_backward(plan));
}

Plan SimulatedPlans::build(const ScheduleInfo& info) {
  try {
    if (info.name == "solver") return build_solved_plan();
    if (info.uses_costs) return moved(build_auto_plan());
    const int chunks = info.chunks_can_vary ? options_.chunks.value_or(info.default_chunks) : info.default_chunks;
    return moved(schedules::build_schedule(info.name, {options_.pp, chunks, options_.microbatches, options_.slices}));
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorKind::input, error.what());
  }
}

Plan SimulatedPlans::moved(Plan plan) const {
  if (options_.offload_fraction <= 0) return plan;
  try {
    return schedules::offload_activations(std::move(plan), options_.offload_fraction);
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorKind::input, fmt::format("--activation-offload-fraction: {}", error.what()));
  }
}

Plan SimulatedPlans::build_auto_plan() const {
  Plan plan = build_auto(auto_request());
  if (plan.stages.empty()) throw Error(ErrorKind::input, "--memory-slots: auto found no plan that keeps them; give more slots");
  return plan;
}

Plan SimulatedPlans::build_solved_plan() {
  constexpr auto no_limit = std::numeric_limits<std::int64_t>::max();
  solved_ = schedules::solve({.problem = auto_request(),
                              .seconds = options_.solver_seconds,
                              .iterations = options_.solver_iterations.value_or(no_limit),
                              .seed = options_.seed});
  if (solved_->plan.stages.empty())
    throw Error(ErrorKind::input, "--memory-slots: solver found no plan that keeps them; give more slots");
  return solved_->plan;
}

schedules::AutoRequest SimulatedPlans::auto_request() const {
  const StepTimes& times = options_.times;
  schedules::AutoRequest request{.stages = options_.pp,
                                 .microbatches = options_.microbatches,
                                 .forward = times.forward,
                                 .input_grad = times.input_grad,
                                 .weight_grad = times.weight_grad,
                                 .edges = times.edges,
                                 .costs = {},
                                 .slots = options_.slots,
                                 .room = room(),
                                 .max_chunks = std::min(2, options_.chunks.value_or(2))};
  if (!options_.profile) return request;
  const Profile whole = profile_of(schedules::Placement::looping(options_.pp, 1), true);
  request.max_chunks = 1;
  request.edges = whole.edges();
  for (std::size_t stage = 0; stage < request.forward.size(); ++stage) {
    const ChunkProfile& measured = whole.stages[stage].chunks.front();
    request.forward[stage] = measured.forward;
    request.input_grad[stage] = measured.input_grad;
    request.weight_grad[stage] = measured.weight_grad;
  }
  return request;
}

schedules::QueueRoom SimulatedPlans::room() const {
  const bool predicts = options_.profile || options_.order == schedules::Order::ready;
  return predicts ? schedules::QueueRoom::reserved : schedules::QueueRoom::all;
}

Costs SimulatedPlans::costs_of(const Plan& plan) const {
  if (options_.profile) return profile_of(plan.placement, splits_backward(plan)).costs();
  try {
    return options_.times.costs(plan);
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorKind::input, fmt::format("--custom: {}; give times of those that it has", error.what()));
  }
}

Plan SimulatedPlans::ended(Plan compute) const {
  const bool has_end = compute.stages.front().back().kind == schedules::ActionKind::optimizer;
  if (has_end || !(options_.profile || options_.times.ends || options_.post_validation)) return compute;
  return with_end_of_step(std::move(compute),
                          options_.profile ? options_.profile->end_of_step() : options_.times.end_of_step());
}

}  // namespace pipetrain
