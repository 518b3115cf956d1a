// Refuses requests that a search of layouts with post-validation cannot serve.
#pragma once

namespace pipetrain {

struct LayoutRequest;

// Throws Error(input) about post-validation for a request with anything that is not simulated, or not built, with it.
void check_post_validation(const LayoutRequest& request);

}  // namespace pipetrain
