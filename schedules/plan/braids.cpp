#include "schedules/plan/braids.hpp"

#include <algorithm>
#include <string>

#include "schedules/plan/grid.hpp"
#include "schedules/plan/invalid_plan.hpp"

namespace pipetrain::schedules {

namespace {

[[noreturn]] void refuse(const Plan& plan, int stage, std::size_t place, const std::string& why) {
  throw InvalidPlan("stage " + std::to_string(stage) + ": " + why, stage, print_grid(plan, {{stage, place}}));
}

void check_braid(const Plan& plan, int stage, std::size_t place) {
  const auto& list = plan.stages[static_cast<std::size_t>(stage)];
  const Action &first = list[place], &second = list[place + 1];
  const std::string name = to_string(first, plan.form()) + "+" + to_string(second, plan.form());
  if (!is_braid(first, second))
    refuse(plan, stage, place,
           name + " is no braid: that is a forward and another compute action of another microbatch, such as F3+B1");
}

}  // namespace

bool has_braids(const Plan& plan) {
  return std::any_of(plan.braids.begin(), plan.braids.end(), [](const auto& places) { return !places.empty(); });
}

std::vector<bool> braid_starts(const Plan& plan, int stage) {
  const auto index = static_cast<std::size_t>(stage);
  if (!has_braids(plan)) return {};
  std::vector<bool> starts(plan.stages[index].size());
  for (const std::int32_t place : plan.braids[index]) starts[static_cast<std::size_t>(place)] = true;
  return starts;
}

void check_braids(const Plan& plan) {
  if (!has_braids(plan)) return;
  if (plan.ready_rule != ReadyRule::none)
    throw InvalidPlan("the plan has braids, which keep the planned order; leave its ready rule out", -1, "");
  if (plan.slices > 1)
    throw InvalidPlan("the plan has braids, and slices, which are not braided; leave one of them out", -1, "");
  if (plan.braids.size() != plan.stages.size())
    throw InvalidPlan("the plan has braids of " + std::to_string(plan.braids.size()) + " stages, and lists of " +
                          std::to_string(plan.stages.size()),
                      -1, "");
  for (int stage = 0; stage < plan.placement.stages(); ++stage) {
    const auto index = static_cast<std::size_t>(stage);
    const auto& list = plan.stages[index];
    std::int64_t free = 0;  // the first position that no earlier braid has
    for (const std::int32_t place : plan.braids[index]) {
      if (place < free || place + 1 >= std::ssize(list))
        throw InvalidPlan("stage " + std::to_string(stage) + ": a braid at position " + std::to_string(place) +
                              " has no action after it, or shares one with another braid",
                          stage, "");
      check_braid(plan, stage, static_cast<std::size_t>(place));
      free = place + 2;
    }
    const auto moved = std::find_if(list.begin(), list.end(), [](const Action& action) { return is_move(action.kind); });
    if (moved != list.end())
      refuse(plan, stage, static_cast<std::size_t>(moved - list.begin()),
             to_string(*moved, plan.form()) + " moves activations, which plans with braids do not");
  }
}

BraidTimes braid_times(const BraidPart& first, const BraidPart& second, int parts) {
  if (first.communication + second.communication <= 0) return {first.compute, first.compute + second.compute};
  double compute = 0, network = 0;  // when each is free
  double ends[2] = {0, 0};
  const BraidPart* const actions[2] = {&first, &second};
  for (int part = 0; part < parts; ++part) {
    for (int one = 0; one < 2; ++one) {
      compute = std::max(compute, ends[one]) + actions[one]->compute / parts;
      ends[one] = compute;
      if (actions[one]->communication <= 0) continue;
      network = std::max(network, compute) + actions[one]->communication / parts;
      ends[one] = network;
    }
  }
  return {ends[0], std::max(ends[0], ends[1])};
}

}  // namespace pipetrain::schedules
