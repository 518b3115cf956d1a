// The options of number types and of the loss scale.
#pragma once

#include "apps/options/option_values.hpp"
#include "model/loss_scale.hpp"
#include "model/numerics.hpp"

namespace pipetrain {

// All throw Error(input) that names the option.
// --precision, else `otherwise`.
Precision read_precision(const OptionValues& values, bool gpu, const Precision& otherwise);
// With --recompute and --deterministic.
Numerics read_numerics(const OptionValues& values, bool gpu);
// Dynamic in fp16 unless a scale is given; else 1 unless one is.
LossScaleSettings read_loss_scale(const OptionValues& values, const Precision& precision);

}  // namespace pipetrain
