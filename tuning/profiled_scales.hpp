// The times of a model's blocks as a run measured them, for layouts that no run had.
#pragma once

#include <array>

#include "actors/training/records/profile.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

// For LayoutRequest::scales: what the profile's blocks took (measured_blocks()) of what the request says of them in the
// profile's layout, with its microbatch, tp, cp, recomputation and ZeRO. At least a thousandth. The request's own scales do
// not count. Throws Error(input) of the setting "costs" for a profile of another model, sequence, precision or kind of device
// than the request's, and as measured_blocks().
std::array<BlockScale, 4> profiled_scales(const LayoutRequest& request, const Profile& profile);

}  // namespace pipetrain
