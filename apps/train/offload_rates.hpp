// Measures how fast the devices of a run exchange offloaded data with the memory of their host, and with a disk.
#pragma once

#include <filesystem>
#include <vector>

namespace pipetrain {

class Device;

// Returns the bytes per second each way between a device and its host's memory, of the slowest device, while all of them copy
// both ways at once, because they share the host's memory. Takes some hundredths of a second. Throws Error(out_of_memory).
double measured_host_rate(const std::vector<Device*>& devices);

// Returns the bytes per second of the slower direction between memory and a file without a name in the folder. Throws as
// DirectFile does.
double measured_disk_rate(const std::filesystem::path& folder);

}  // namespace pipetrain
