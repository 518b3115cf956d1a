// Derives the costs of a layout that was never run from a profiled run.
#pragma once

#include <array>

#include "actors/training/records/profile.hpp"
#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// Returns the profile that a run of this placement would have given, cut as `cut` says (empty: by cost), with I and W
// apart if `split`.
//
// Times of stages become times of blocks (BlockTimes), and these add up to the times of other stages. A backward that
// was measured whole is divided into I and W by FLOPs. The ends of the step are proportional to parameters. A message
// between any two stages takes the median of those that were measured, or no time where none was.
//
// Throws Error(input) for a profile whose model cannot be read or has too few blocks for the placement, and for a cut
// that suits neither.
Profile profile_for(const Profile& measured, const schedules::Placement& placement, bool split, const Cut& cut = {});

// Returns the profile that the run would have given in this mode of recomputation, with the same cut: backwards take longer or
// shorter in proportion to their FLOPs. Throws Error(input) for a profile whose model cannot be read.
Profile with_recompute(const Profile& measured, Recompute recompute);

// Returns true if the plan computes I and W apart.
bool splits_backward(const schedules::Plan& plan);

// Seconds that one microbatch takes in a block.
struct MeasuredBlock {
  double forward = 0, input_grad = 0, weight_grad = 0;
};
// Returns the mean over the run's blocks of each BlockKind; for attention and MLP it counts only blocks that recompute in
// the run's mode. Throws Error(input) for a profile whose model cannot be read.
std::array<MeasuredBlock, block_kinds> measured_blocks(const Profile& measured);

}  // namespace pipetrain
