// Reads the options --offload and --offload-to.
#pragma once

#include "apps/options/option_values.hpp"
#include "model/config/offload.hpp"

namespace pipetrain {

// Completes the settings that the rows have read. Throws Error(input) for unknown words, for "none" with other words, and for a
// fraction or a folder of data that is not offloaded.
void read_offload(const OptionValues& values, Offload& offload);

}  // namespace pipetrain
