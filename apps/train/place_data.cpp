#include "apps/train/place_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/training/run/make_train_job.hpp"
#include "apps/train/offload_rates.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "files/direct_file.hpp"
#include "model/costs.hpp"
#include "model/optimizer/optimizer.hpp"
#include "tuning/data_placements.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {
namespace {

constexpr double bytes_per_gib = std::int64_t{1} << 30;

// Returns the bytes of host memory that are free for a run that saves checkpoints, of which it keeps the newest states there.
double free_host_bytes(const TrainJob& job, bool saves) {
  const auto free = static_cast<double>(make_cpu_device(0, 1)->memory().free);
  const auto states = static_cast<double>(make_optimizer(job.optimizer)->states().size());
  return saves ? free - (1 + states) * sizeof(float) * static_cast<double>(trained_parameter_count(job.config)) : free;
}

DataRoom room_of(const TrainJob& job, const MeasuredDevices& devices, const TrainOptions& options) {
  const double host = free_host_bytes(job, options.run.saving.folder.has_value());
  const bool is_cpu = job.devices.kind == DeviceKind::cpu;
  DataRoom room;
  // A GPU's driver rounds allocations up, and keeps memory for kernels.
  constexpr double usable = 63.0 / 64;
  room.device = is_cpu ? host / static_cast<double>(options.run.ranks()) : usable * devices.memory_bytes;
  if (const auto bound = options.placement->memory_bytes) room.device = std::min(room.device, *bound);
  room.host = host;
  if (!job.offload.folder.empty()) room.disk = static_cast<double>(free_disk_bytes(job.offload.folder));
  return room;
}

double host_rate() {
  std::vector<std::unique_ptr<Device>> gpus;
  std::vector<Device*> devices;
  for (int i = 0; i < cuda_device_count(); ++i) devices.push_back(gpus.emplace_back(make_cuda_device(i)).get());
  return measured_host_rate(devices);
}

// The user's rate is that of the farthest place.
PlacementSpeed speed_of(const TrainJob& job, const MeasuredDevices& devices, const DataPlacement& placement) {
  PlacementSpeed all;
  const bool half = job.devices.kind == DeviceKind::cuda ? job.numerics.precision != Precision::fp32()
                                                         : job.numerics.precision == Precision::bf16();
  all.speed.flops = half ? devices.bf16_flops.value_or(devices.fp32_flops) : devices.fp32_flops;
  all.speed.fp8_flops = all.speed.flops;
  all.speed.memory_rate = devices.memory_rate;
  all.speed.block_overhead = devices.block_overhead;
  all.speed.link_rate = all.speed.host_link_rate = devices.link_rate.value_or(devices.memory_rate);
  all.speed.latency = all.speed.host_latency = devices.latency.value_or(0);
  const bool has_disk = !job.offload.folder.empty();
  if (has_disk) all.disk_rate = placement.offload_rate ? *placement.offload_rate : measured_disk_rate(job.offload.folder);
  if (job.devices.kind == DeviceKind::cuda)
    all.speed.offload_rate = placement.offload_rate && !has_disk ? *placement.offload_rate : host_rate();
  return all;
}

[[noreturn]] void refuse(const std::vector<SimulatedPlacement>& placements, const DataRoom& room) {
  const auto least = std::min_element(placements.begin(), placements.end(),
                                      [](const auto& one, const auto& other) { return one.device < other.device; });
  throw Error(
      ErrorKind::out_of_memory,
      fmt::format("offload auto: no placement of the run's data fits {:.3g} GiB a device; {} needs {:.3g} GiB, {:.3g} "
                  "GiB of host memory and {:.3g} GiB of a disk; use recompute full, a smaller microbatch, or more "
                  "devices",
                  room.device / bytes_per_gib, to_string(least->offload), static_cast<double>(least->device) / bytes_per_gib,
                  least->host / bytes_per_gib, least->disk / bytes_per_gib));
}

// Returns the option and the value of each share that is not all.
std::vector<std::pair<std::string, std::string>> shares_of(const Offload& offload) {
  std::vector<std::pair<std::string, std::string>> shares;
  const auto add = [&](const char* option, double share) {
    if (share > 0 && share < 1) shares.emplace_back(option, fmt::format("{}", share));
  };
  add("optimizer-offload-fraction", offload.optimizer_share());
  add("activation-offload-fraction", offload.activation_share());
  return shares;
}

std::string named(const Offload& offload) {
  std::string text = to_string(offload);
  const char* joint = " with ";
  for (const auto& [option, value] : shares_of(offload)) {
    text += fmt::format("{}{} {}", joint, option, value);
    joint = " and ";
  }
  return text;
}

std::string note_of(const SimulatedPlacement& chosen, std::size_t tried) {
  return fmt::format("offload auto: {}, of {} placements; simulated {:.3g} s a step, {:.3g} GiB a device",
                     named(chosen.offload), tried, chosen.seconds, static_cast<double>(chosen.device) / bytes_per_gib);
}

PlacedData measured(const TrainJob& job, const TrainOptions& options) {
  const bool is_cpu = job.devices.kind == DeviceKind::cpu;
  const int count = is_cpu ? static_cast<int>(options.run.ranks()) : cuda_device_count();
  const MeasuredDevices devices = measure_devices(job.devices.kind, count, job.devices.threads);
  return {speed_of(job, devices, *options.placement), room_of(job, devices, options), job.offload.folder};
}

// Measures only where nothing is measured yet: later layouts of a run, which fills the devices, have its measurements.
Offload choose(TrainOptions& options) {
  RunSettings fresh = options.run;
  fresh.saving = {};
  std::vector<std::string> ignored;
  const TrainJob job = make_train_job(fresh, ignored);
  if (!options.placed) options.placed = std::make_shared<const PlacedData>(measured(job, options));
  const PlacedData& placed = *options.placed;
  const auto placements = simulate_placements(job, job.dataset->sequence_length(), placed.speed, placed.room);
  const auto chosen = fastest_placement(placements);
  if (!chosen) refuse(placements, placed.room);
  options.notes.push_back(note_of(*chosen, placements.size()));
  return chosen->offload;
}

}  // namespace

void place_data(TrainOptions& options) {
  if (!options.placement) return;
  placing_errors(options.places, [&] { options.run.offload = choose(options); });
  options.placement.reset();
  options.changed = [change = std::move(options.changed), placed = options.placed](const auto& arguments,
                                                                                   const RunPlace& place) {
    TrainOptions changed = change(arguments, place);
    if (changed.placement) changed.placed = placed;
    place_data(changed);
    return changed;
  };
}

std::optional<BetterPlacement> corrected_placement(const PlacedData& placed, const TrainJob& job, const Profile& measured) {
  const std::int64_t sequence = job.dataset->sequence_length();
  const PlacementSpeed speed = corrected_speed(job, sequence, placed.speed, measured);
  const auto better = better_placement(job, placed.folder, sequence, speed, placed.room);
  if (!better) return {};
  const Offload& offload = better->offload;
  BetterPlacement found{{"--offload", to_string(offload)}, "offload " + named(offload)};
  const auto add = [&](const std::string& option, const std::string& value) {
    found.arguments.insert(found.arguments.end(), {"--" + option, value});
  };
  for (const auto& [option, value] : shares_of(offload)) add(option, value);
  if (offload.to_disk()) add("offload-to", offload.folder.string());
  found.text += fmt::format(", simulated {:.3g} s a step", better->seconds);
  return found;
}

}  // namespace pipetrain
