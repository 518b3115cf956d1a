// The arithmetic of optimizers' rules on GPUs: see ops/update.hpp.
#pragma once

#include "ops/host_device.hpp"

namespace pipetrain::cuda {

struct DeviceMath {
  PIPETRAIN_HOST_DEVICE static float root(float value) { return sqrtf(value); }
  // Every kernel must round the same product, or an element's bits would depend on whether its tensor is
  // aligned; left to itself, the compiler would choose anew for each kernel.
  PIPETRAIN_HOST_DEVICE static float weighted_sum(float a, float x, float b, float y) { return fmaf(a, x, b * y); }
  PIPETRAIN_HOST_DEVICE static float mean_square(float beta, float mean, float value) {
    return fmaf(value, (1.0F - beta) * value, beta * mean);
  }
  PIPETRAIN_HOST_DEVICE static float scaled_quotient(float factor, float dividend, float divisor) {
    return factor * (dividend / divisor);
  }
};

}  // namespace pipetrain::cuda
