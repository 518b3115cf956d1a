// The features that a search of layouts asks for: see actors/training/job/features.hpp.
#pragma once

#include "actors/training/job/features.hpp"

namespace pipetrain {

struct LayoutRequest;

// Those that all layouts of the request have, and those of the search itself.
UsedFeatures features_of(const LayoutRequest& request);

}  // namespace pipetrain
