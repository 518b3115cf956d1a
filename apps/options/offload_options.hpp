// What the options --offload and --offload-to ask for.
#pragma once

#include "apps/options/option_values.hpp"
#include "model/config/offload.hpp"

namespace pipetrain {

// Throws Error(input) for unknown words, for what is not built, and for a folder without anything to put there.
Offload read_offload(const OptionValues& values);

}  // namespace pipetrain
