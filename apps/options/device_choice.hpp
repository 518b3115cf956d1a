// Chooses the devices of a run from --device, --devices, --threads and the hardware of the machine.
#pragma once

#include <string>

#include "apps/options/option_values.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

// Returns a text such as "pp 2 x tp 2 x dp 1", with cp if it is not 1.
std::string sizes_text(const RunSettings& run);

// Fills the devices of `options`, whose layout and batch are known, and may add a note. Throws Error(input).
void choose_devices(const OptionValues& values, const Machine& machine, TrainOptions& options);

}  // namespace pipetrain
