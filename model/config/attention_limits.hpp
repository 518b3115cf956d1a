// The attention that a kind of device has kernels for.
#pragma once

#include "core/device.hpp"
#include "core/dtype.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// True when the device has kernels for heads of the model's size. precision: that of activations.
bool computes_heads(const ModelConfig& config, DeviceKind device, DType precision);
// Throws Error(input), which says what would work, if the device has no kernels for the model's heads, or the model's routers
// need another precision.
void check_attention(const ModelConfig& config, DeviceKind device, DType precision);

}  // namespace pipetrain
