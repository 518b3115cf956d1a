// What the run computes on, from --device, --devices, --threads and what the machine has.
#pragma once

#include "apps/options/option_values.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

// Fills the devices of `options`, whose layout and batch are known, and may add a note. Throws Error(input).
void choose_devices(const OptionValues& values, const Machine& machine, TrainOptions& options);

}  // namespace pipetrain
