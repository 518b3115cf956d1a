// Which actions of a plan are braided: a forward F with the compute that stands behind it in its stage's list, of another
// microbatch. Both need their inputs and slots before either begins; with communication between tensor-parallel ranks they then
// run in turns, part by part (Qi et al. 2025, "Synergistic Tensor and Pipeline Parallelism").
#pragma once

#include <cstddef>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// Whether these two, next to each other, can be one: a forward, and any compute of another microbatch.
constexpr bool is_braid(const Action& first, const Action& second) {
  return first.kind == ActionKind::forward && is_compute(second.kind) && first.microbatch != second.microbatch;
}

bool has_braids(const Plan& plan);

// By place in the stage's list: whether a braid begins there. Empty where the plan has no braids.
std::vector<bool> braid_starts(const Plan& plan, int stage);

// Throws InvalidPlan. The lists' own rules are checked elsewhere.
void check_braids(const Plan& plan);

// An action's time without what it waits for other tensor-parallel ranks, and that; in so many parts, each of which ends with a
// collective.
struct BraidPart {
  double compute = 0;
  double communication = 0;
};
// After the begin of both.
struct BraidTimes {
  double first_end = 0;
  double end = 0;  // of both
};
// The parts alternate, the first action's first; a part begins when its own action's last collective has ended, and collectives
// run one after another beside the compute. Without any communication one action follows the other.
BraidTimes braid_times(const BraidPart& first, const BraidPart& second, int parts);

}  // namespace pipetrain::schedules
