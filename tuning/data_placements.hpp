// Chooses where the data of a run lives: on its devices, in the memory of their host, or on a disk. Each placement is a value
// of Offload; its memory is counted as a run counts it, and its step is simulated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "model/config/offload.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

struct TrainJob;

// The room that a run may take.
struct DataRoom {
  double device = 0;  // bytes of each device
  double host = std::numeric_limits<double>::infinity(), disk = std::numeric_limits<double>::infinity();  // of all devices
};

struct SimulatedPlacement {
  Offload offload;
  double seconds = 0;         // of a step
  std::size_t device = 0;     // bytes of the fullest device
  double host = 0, disk = 0;  // bytes of all devices
  bool fits = false;
};

// speed.offload_rate is that between a device and its host; disk_rate, in bytes per second, that between a device and the
// disk of the job's folder for offloaded data, the slower one of both directions.
struct PlacementSpeed {
  DeviceSpeed speed;
  std::array<BlockScale, block_kinds> scales = {};
  double disk_rate = 0;
};

// Returns all placements that go with the job's other features, simulated: every choice among the optimizer's states,
// parameters, gradients and shares of activations, in host memory (GPUs) and, where the job names a folder, on its disk. As
// many of the optimizer's states stay on the devices as have room there. The job's own choice does not count. job: with config
// and batch; plans are built for it. Throws Error(input) for a job that cannot be laid out.
std::vector<SimulatedPlacement> simulate_placements(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed,
                                                    const DataRoom& room);

// Returns the fastest placement that fits; of those that are equally fast, the one that moves the fewest bytes. No value where
// none fits.
std::optional<SimulatedPlacement> fastest_placement(const std::vector<SimulatedPlacement>& placements);

// Returns the speed by which a run of the job has computed and moved data in its first steps: what bounded the optimizer's
// step, the transfers of its data or the device's memory, has the rate that its time shows, and blocks take the times that were
// measured. measured: of that run. Throws as profiled_scales().
PlacementSpeed corrected_speed(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed,
                               const Profile& measured);

// Returns the fastest placement that fits if it is simulated to be at least 3 % faster than the job's own, with this
// speed; else no value. folder: on the disk; empty: none.
std::optional<SimulatedPlacement> better_placement(const TrainJob& job, const std::filesystem::path& folder,
                                                   std::int64_t sequence, const PlacementSpeed& speed, const DataRoom& room);

}  // namespace pipetrain
