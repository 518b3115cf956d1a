// Chooses the devices of the run, from --device, --devices, --threads and what the machine has.
#pragma once

#include <string>

#include "apps/options/option_values.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

// "pp 2 x tp 2 x dp 1", with cp where it is not 1.
std::string sizes_text(const RunSettings& run);

// Fills the devices of `options`, whose layout and batch are known, and may add a note. Throws Error(input).
void choose_devices(const OptionValues& values, const Machine& machine, TrainOptions& options);

}  // namespace pipetrain
