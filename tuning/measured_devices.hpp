// What the devices of a machine sustain, and its file of JSON.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>

#include "core/device_kind.hpp"

namespace pipetrain {

// Of each device, all of them at work at once, and of work that goes on: what a device reaches for a moment is more.
struct MeasuredDevices {
  DeviceKind kind = DeviceKind::cpu;
  int count = 1;
  int threads = 1;          // of one CPU device
  double memory_bytes = 0;  // that a run may take
  double fp32_flops = 0;    // per second, of matrix products
  std::optional<double> bf16_flops;
  double memory_rate = 0;     // bytes per second, read and written by a copy
  double block_overhead = 0;  // seconds of a block's pass on next to no data
  // Between two devices; nothing where there is only one.
  std::optional<double> link_rate, latency;
};

// What a device can be, in bytes, per second and seconds, measured or given. Within, every time that a layout is predicted to
// take is above zero and finite.
struct DeviceRange {
  double least, most;
};
constexpr DeviceRange memory_range{0x1p20, 0x1p46};
constexpr DeviceRange flops_range{1e6, 1e21};
constexpr DeviceRange rate_range{1e3, 1e18};
constexpr DeviceRange time_range{1e-12, 1e3};

// Takes some seconds. A CPU's cores are shared evenly by `count` devices; of GPUs, all that are visible are measured. Throws
// Error(unavailable), Error(out_of_memory).
MeasuredDevices measure_devices(DeviceKind kind, int count, int threads);

void write_measured_devices(std::ostream& out, const MeasuredDevices& devices);
// Of at most 1 MiB. Throws Error(input) naming the file and what is wrong with it.
MeasuredDevices read_measured_devices(const std::filesystem::path& path);

}  // namespace pipetrain
