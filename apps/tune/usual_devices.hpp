// The devices that `pipetrain tune` plans for where its options do not say: those that doctor has measured, or typical GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_values.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Sizes are in bytes, rates in FLOP/s or bytes/s, times in seconds.
struct UsualDevices {
  std::optional<int> devices;
  DeviceKind device = DeviceKind::cuda;
  double memory_bytes = 80.0 * (std::int64_t{1} << 30), fp32_flops = 50e12, memory_rate = 3000e9, block_overhead = 40e-6;
  std::optional<double> bf16_flops = 400e12;
  double link_rate = 300e9, latency = 15e-6;
  int hosts = 1;
  double host_link_rate = 25e9, host_latency = 30e-6;  // 200 Gbit/s for each GPU
};

// Reads the file of --measured, if it is given; otherwise looks at the visible GPUs. Adds a note where the file lacks a link.
// Throws Error(input).
UsualDevices usual_devices(const OptionValues& values, std::vector<std::string>& notes);

}  // namespace pipetrain
