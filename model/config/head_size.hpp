// Which sizes of attention heads a kind of device has kernels for.
#pragma once

#include "core/device.hpp"
#include "core/dtype.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// precision: of activations.
bool computes_heads(const ModelConfig& config, DeviceKind device, DType precision);
// Throws Error(input) that says what would work, where it does not.
void check_head_size(const ModelConfig& config, DeviceKind device, DType precision);

}  // namespace pipetrain
