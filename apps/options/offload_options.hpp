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

// Removes from the run's options what belongs to an earlier --offload where `change` has another: bounds of the program's
// choice and the folder that it could use, shares of data that the new one does not move, and with "none" the folder.
void forget_data_placement(const RawOptions& change, RawOptions& before);

// The limits of that choice.
struct DataPlacement {
  std::optional<double> memory_bytes;  // of each device; no value: what is free
  std::optional<double> offload_rate;  // bytes per second to the disk, else to the host's memory; no value: measured
};
// Returns no value where the user chooses. Throws Error(input) for options that do not go with the choice. several:
// the run has several processes.
std::optional<DataPlacement> read_data_placement(const OptionValues& values, DeviceKind kind, bool several);

}  // namespace pipetrain
