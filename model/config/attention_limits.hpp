// The attention that a kind of device has kernels for.
#pragma once

#include "core/device.hpp"
#include "core/dtype.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// Whether it has them for heads of the model's size. precision: of activations.
bool computes_heads(const ModelConfig& config, DeviceKind device, DType precision);
// Throws Error(input) that says what would work, if it has none for the model's heads.
void check_attention(const ModelConfig& config, DeviceKind device, DType precision);

}  // namespace pipetrain
