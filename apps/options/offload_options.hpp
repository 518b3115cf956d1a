// Reads the options --offload and --offload-to.
#pragma once

#include "apps/options/option_values.hpp"
#include "model/config/offload.hpp"

namespace pipetrain {

// Completes what the rows have read of it. Throws Error(input) for unknown words, for what is not built, and for a folder
// without anything to put there.
void read_offload(const OptionValues& values, Offload& offload);

}  // namespace pipetrain
