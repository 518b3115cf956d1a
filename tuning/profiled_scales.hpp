// Uses the block times that a run measured for layouts that no run had.
#pragma once

#include <array>

#include "actors/training/records/profile.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

// Returns LayoutRequest::scales: the ratio of the profile's block times (measured_blocks()) to the times that the
// request gives them in the profile's layout, with its microbatch, tp, cp, recomputation and ZeRO. At least a
// thousandth. The request's own scales are ignored. Throws Error(input) about the setting "costs" for a profile of
// another model, sequence, precision or kind of device than the request's, and as measured_blocks().
std::array<BlockScale, block_kinds> profiled_scales(const LayoutRequest& request, const Profile& profile);

}  // namespace pipetrain
