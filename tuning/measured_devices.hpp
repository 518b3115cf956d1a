// The sustained speeds of a machine's devices, and their JSON file.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <vector>

#include "core/device_kind.hpp"

namespace pipetrain {

// A link between two processes; each value is the worse of both directions.
struct MeasuredLink {
  double rate = 0;     // seconds of a small message
  double latency = 0;  // seconds of a small message
};

struct MeasuredDevices {
  DeviceKind kind = DeviceKind::cpu;
  int count = 1;
  int threads = 1;          // of one CPU device
  double memory_bytes = 0;  // that a run may take
  double fp32_flops = 0;    // per second, of matrix products
  std::optional<double> bf16_flops;
  double memory_rate = 0;     // bytes per second, read and written by a copy
  double block_overhead = 0;  // seconds of a block's pass with almost no data
  // Between two devices; no value where there is only one.
  std::optional<double> link_rate, latency;
  // With several processes: the host of each, numbered from 0 in order of their first processes, and the links between every
  // two, as (0, 1), (0, 2), ..., (1, 2), ... `count` devices are on each host, and the speeds are those of the slowest host.
  std::vector<int> hosts;
  std::vector<MeasuredLink> links;

  // A message has the measurement of one process, which knows neither hosts nor links.
  static void wire_fields(auto& wire, auto& of) {
    wire(of.count, of.memory_bytes, of.fp32_flops, of.bf16_flops, of.memory_rate, of.block_overhead, of.link_rate, of.latency);
  }

  int processes() const { return hosts.empty() ? 1 : static_cast<int>(hosts.size()); }
  int host_count() const;
  // Returns the link between two different processes.
  const MeasuredLink& link(int one, int other) const;
  // Returns the slowest rate and the longest latency between processes of different hosts; no value on one host.
  std::optional<MeasuredLink> between_hosts() const;
};

// The allowed range of a device's value, in bytes, per second or seconds, measured or given. Within it, every predicted
// time of a layout is above zero and finite.
struct DeviceRange {
  double least, most;
};
constexpr DeviceRange memory_range{0x1p20, 0x1p46};
constexpr DeviceRange flops_range{1e6, 1e21};
constexpr DeviceRange rate_range{1e3, 1e18};
constexpr DeviceRange time_range{1e-12, 1e3};
constexpr int most_measured_processes = 64;

// Takes some seconds. `count` CPU devices share the cores evenly; of GPUs, all visible ones are measured. Throws
// Error(unavailable), Error(out_of_memory).
MeasuredDevices measure_devices(DeviceKind kind, int count, int threads);

void write_measured_devices(std::ostream& out, const MeasuredDevices& devices);
// Reads at most 1 MiB. Throws Error(input) naming the file and the fault.
MeasuredDevices read_measured_devices(const std::filesystem::path& path);

}  // namespace pipetrain
