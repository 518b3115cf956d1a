// Proves a plan before it runs, and computes the resources that a run must reserve for it.
#pragma once

#include <vector>

#include "schedules/plan/invalid_plan.hpp"
#include "schedules/plan/order.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/plan_needs.hpp"

namespace pipetrain::schedules {

// Checks that every action occurs exactly once, inputs come before use, forwards, backwards and weight gradients of a
// chunk each keep microbatch order, the collectives of all stages fit one global order, custom actions come after what
// they wait for, and that nothing deadlocks with exactly the returned slots at any speeds. Returns the needs per stage
// for this order; for Order::ready they bound every order that the rule can choose.
//
// Planned slots are those of the as-soon-as-possible execution with F = I = W = 1 and two actions launched ahead, so that no
// credit delays it. They suffice at any speed: with fixed lists, progress does not depend on time (a marked graph).
// Throws InvalidPlan, or std::invalid_argument for an impossible SlotLife or Order::ready without a rule.
std::vector<StageNeeds> validate(const Plan& plan, Order order = Order::planned, const SlotLife& life = {});

// Runs the same proof without computing needs, in little more memory than the plan's.
void check_plan(const Plan& plan);

// Throws InvalidPlan when the planned order can deadlock with these slots. The plan must have passed validate().
void check_progress(const Plan& plan, const std::vector<StageNeeds>& needs, const SlotLife& life = {});

}  // namespace pipetrain::schedules
