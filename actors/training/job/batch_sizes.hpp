// The three sizes of a step's batch, any of which may be left out.
#pragma once

#include <cstdint>
#include <optional>

#include "data/samples/sampler.hpp"

namespace pipetrain {

constexpr std::int64_t largest_batch_factor = 1'000'000;  // so that no product overflows

// The sizes that the settings name, each from 1 to largest_batch_factor; the global batch is at most its square.
struct BatchSettings {
  std::optional<std::int64_t> microbatch, microbatches, global_batch;
};

// Global batch = dp x microbatches x microbatch. Sizes that are not given follow from the others; the defaults are a microbatch
// of 1 and 4 pp microbatches. Throws Error(input) about global-batch when the sizes disagree or do not divide.
BatchShape resolve_batch(const BatchSettings& settings, int pp, int dp);

}  // namespace pipetrain
