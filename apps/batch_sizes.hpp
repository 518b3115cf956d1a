// The three sizes of a step's batch, any of which the user may leave out.
#pragma once

#include <optional>

#include "apps/option_values.hpp"
#include "data/sampler.hpp"

namespace pipetrain {

// Global batch = dp x microbatches x microbatch. Of the three, what is not given follows from the others; defaults are a
// microbatch of 1 and 4 pp microbatches; a plan from a file fixes the microbatches. Throws Error(input) when they disagree or
// do not divide.
BatchShape resolve_batch(const OptionValues& values, int pp, int dp, std::optional<std::int64_t> plan_microbatches);

}  // namespace pipetrain
