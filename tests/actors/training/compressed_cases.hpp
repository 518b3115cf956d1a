// Runs with compressed gradients that tests of CPUs and of GPUs share.
#pragma once

#include <cstdint>
#include <utility>

#include "actors/golden_run.hpp"

namespace pipetrain::test {

// The second moments of gradients in 1 bit are compared every two steps, so that they are frozen within the tests' steps.
inline TrainJob with_compressed_gradients(TrainJob job, BlockCode code) {
  job.compression.gradients = code;
  job.learning_rate.peak = 1e-3;
  if (code == BlockCode::sign) job.optimizer.beta2 = 0.5F;
  return job;
}

inline Layout with_zero(Layout layout, int zero) {
  layout.zero = zero;
  return layout;
}

// The codes, and the stages of ZeRO with which they work.
struct CompressedCase {
  BlockCode code;
  int zero;
  std::int64_t steps;  // in which gradients are compressed
};
inline constexpr CompressedCase compressed_cases[] = {
    {BlockCode::int8, 0, 4}, {BlockCode::int8, 1, 4}, {BlockCode::sign, 0, 8}};

}  // namespace pipetrain::test
