// Reads the options --offload and --offload-to.
#pragma once

#include <optional>

#include "apps/options/option_values.hpp"
#include "core/device_kind.hpp"
#include "model/config/offload.hpp"

namespace pipetrain {

// Completes the settings that the rows have read. Throws Error(input) for unknown words, for "none" with other words, and for a
// fraction or a folder of data that is not offloaded.
void read_offload(const OptionValues& values, Offload& offload);

// True for --offload auto: the program chooses where data lives, see apps/train/place_data.hpp.
bool places_data(const OptionValues& values);

// Removes the options that bound an earlier choice where a later --offload, which names the data itself, has replaced it.
void forget_data_placement(RawOptions& given);

// The bound of that choice.
struct DataPlacement {
  std::optional<double> memory_bytes;  // of each device; no value: what is free
};
// Returns no value where the user chooses. Throws Error(input) for options that do not go with the choice. several:
// the run has several processes.
std::optional<DataPlacement> read_data_placement(const OptionValues& values, DeviceKind kind, bool several);

}  // namespace pipetrain
