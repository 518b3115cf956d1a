// The braids of a plan: a forward F with the next compute action of its stage's list, of another microbatch. Both need
// their inputs and slots before either begins. Where the ranks of a stage exchange activations, to divide matrices
// or experts, they run alternately, part by part (Qi et al. 2025, "Synergistic Tensor and Pipeline Parallelism").
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// True when these two consecutive actions can be a braid: a forward, then any compute of another microbatch.
constexpr bool is_braid(const Action& first, const Action& second) {
  return first.kind == ActionKind::forward && is_compute(second.kind) && first.microbatch != second.microbatch;
}

bool has_braids(const Plan& plan);

// By position in the stage's list: true where a braid begins. Empty where the plan has no braids.
std::vector<bool> braid_starts(const Plan& plan, int stage);

// Throws InvalidPlan. Other checks cover the lists' own rules.
void check_braids(const Plan& plan);

// The compute time of an action, and its time of waiting for other ranks of its stage, in a number of equal parts
// each of which ends with a collective.
struct BraidPart {
  double compute = 0;
  double communication = 0;
};
// Times after the begin of both.
struct BraidTimes {
  double first_end = 0;
  double end = 0;  // of both
};
// The parts alternate, beginning with the first action's; a part begins when the last collective of its own action has
// ended, and collectives run one after another beside the compute. Without communication one action follows the other.
BraidTimes braid_times(const BraidPart& first, const BraidPart& second, int parts);

}  // namespace pipetrain::schedules
