// What a profiled run's costs say of a layout that was never run.
#pragma once

#include <array>

#include "actors/training/records/profile.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// The profile as a run of this placement would have given it, cut as `cut` says (empty: by cost), with I and W apart if
// `split`.
//
// Times of stages become times of blocks (BlockTimes), and those the times of other stages. Of a backward that was measured
// whole, I and W get their shares of its FLOPs. The ends of the step go by parameters; a message between any two stages takes
// the median of those that were measured, and no time where none was.
//
// Throws Error(input) for a profile whose model cannot be read, or has too few blocks for the placement, and for a cut that
// does not go with them.
Profile profile_for(const Profile& measured, const schedules::Placement& placement, bool split, const Cut& cut = {});

// Seconds of one microbatch through a block.
struct MeasuredBlock {
  double forward = 0, input_grad = 0, weight_grad = 0;
};
// By BlockKind, as above: the mean of the run's blocks, of attention and MLP of those that recompute as its mode says. Throws
// Error(input) likewise.
std::array<MeasuredBlock, 4> measured_blocks(const Profile& measured);

}  // namespace pipetrain
