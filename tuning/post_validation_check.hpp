// What a search of layouts whose steps begin before the verdict does not go with.
#pragma once

namespace pipetrain {

struct LayoutRequest;

// Throws Error(input) about post-validation for a request that has something which is not simulated, or not built, with it.
void check_post_validation(const LayoutRequest& request);

}  // namespace pipetrain
