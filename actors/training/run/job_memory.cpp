#include "actors/training/run/job_memory.hpp"

#include <cstdint>
#include <map>
#include <string>

#include "actors/training/copies/agreement.hpp"
#include "actors/training/copies/staged_transfers.hpp"
#include "actors/training/copies/state_copies.hpp"
#include "actors/training/job/offload_check.hpp"
#include "core/device.hpp"

namespace pipetrain {
namespace {

constexpr const char* the_host = "the host";

struct MemoryNeed {
  std::size_t free = 0, bytes = 0;
};

// By device name; CPU devices share the machine's memory, each GPU has its own.
std::map<std::string, MemoryNeed> memory_needs(const ParallelLayout& layout, const std::vector<DeviceMemory>& devices) {
  std::map<std::string, MemoryNeed> needs;
  for (const auto& rank : devices) {
    const Device& device = layout.device(rank.rank);
    MemoryNeed& need = needs[device.id().kind == DeviceKind::cpu ? the_host : to_string(device.id())];
    need.free = device.memory().free;
    need.bytes += rank.use.total();
    if (rank.use.snapshot + rank.use.copies == 0) continue;
    MemoryNeed& host = needs[the_host];
    host.bytes += rank.use.snapshot + rank.use.copies + rank.use.host;
    if (host.free == 0) host.free = make_cpu_device(0, 1)->memory().free;
  }
  return needs;
}

// More recomputation than the run's own, and the bytes that a device then needs.
struct Recomputing {
  std::optional<std::int64_t> layers;  // of each stage; no value: all
  std::size_t bytes = 0;
};

// Returns full recomputation of as few layers of each stage as fit, or of all where even that does not fit.
// bytes(numerics): the bytes needed.
template <class Bytes>
Recomputing least_recomputing(const TrainJob& job, std::size_t free, const Bytes& bytes) {
  Numerics numerics = job.numerics;
  numerics.recompute = Recompute::full;
  numerics.recompute_layers.reset();
  Recomputing least{.layers = {}, .bytes = bytes(numerics)};
  if (least.bytes > free) return least;
  std::int64_t too_few = 0, enough = job.config.layers;
  while (enough - too_few > 1) {
    numerics.recompute_layers = too_few + (enough - too_few) / 2;
    const std::size_t need = bytes(numerics);
    if (need <= free) least = {.layers = numerics.recompute_layers, .bytes = need};
    (need <= free ? enough : too_few) = *numerics.recompute_layers;
  }
  return least;
}

// Returns advice for making the run smaller. More CPU devices do not help: they share one machine's memory.
std::string remedies(const TrainJob& job, const Recomputing& recomputing, std::size_t need) {
  std::string text = job.elastic == Elastic::takeover ? "elastic off, " : "";
  if (recomputing.bytes < need)
    text += "recompute full" +
            (recomputing.layers ? " of " + std::to_string(*recomputing.layers) + " or more layers of each stage" : "") +
            " (about " + std::to_string(recomputing.bytes >> 20) + " MiB then), ";
  if (job.devices.kind == DeviceKind::cuda) return text + "a smaller microbatch or sequence length, or more devices";
  if (job.batch.dp > 1) text += "a smaller dp, ";
  return text + "a smaller microbatch or sequence length, or fewer layers";
}

}  // namespace

std::vector<DeviceMemory> estimate_devices(const ParallelLayout& layout, const TrainJob& job) {
  std::vector<DeviceMemory> devices;
  for (const StageId id : layout.stages()) {
    for (const auto& setup : layout.rank_setups(job, id)) {
      devices.push_back({setup.id, estimate_memory(setup)});
    }
  }
  return devices;
}

std::optional<Error> memory_shortage(const ParallelLayout& layout, const TrainJob& job,
                                     const std::vector<DeviceMemory>& devices, std::size_t other_bytes,
                                     const EndingMemory& ending) {
  if (auto shortage = offload_shortage(job, devices, ending.devices)) return shortage;
  for (const auto& [name, need] : memory_needs(layout, devices)) {
    const std::size_t others = name == the_host ? other_bytes : 0;
    const auto held = ending.bytes.find(name);
    const std::size_t free = need.free + (held != ending.bytes.end() ? held->second : 0), bytes = need.bytes + others;
    if (bytes <= free) continue;
    const std::string& full_device = name;
    const auto needs_with = [&](const Numerics& numerics) {
      TrainJob other = job;
      other.numerics = numerics;
      return memory_needs(layout, estimate_devices(layout, other)).at(full_device).bytes + others;
    };
    const Recomputing less = least_recomputing(job, free, needs_with);
    return Error(ErrorKind::out_of_memory, name + ": the run needs about " + std::to_string(bytes >> 20) + " MiB and " +
                                               std::to_string(free >> 20) + " MiB are free; use " + remedies(job, less, bytes));
  }
  return {};
}

// Returns the most bytes that a GPU copies after a step: both copies and two pieces of staging memory are in its sum.
std::size_t most_copied_bytes(const TrainJob& job, const std::vector<DeviceMemory>& devices) {
  if (job.devices.kind != DeviceKind::cuda) return 0;
  std::size_t most = 0;
  for (const DeviceMemory& device : devices) {
    const std::size_t staging = std::min(device.use.copies / 2, StagedTransfers::most_locked_bytes);
    most = std::max(most, (device.use.copies - staging) / copies_alone);
  }
  return most;
}

// Returns the most bytes of copies that a process passes on after a step.
std::size_t most_passed_bytes(const TrainJob& job, const Mesh& mesh, const std::vector<DeviceMemory>& devices) {
  std::size_t most = 0;
  for (int process = 0; process < mesh.processes(); ++process) {
    std::size_t bytes = 0;
    for (const int rank : states_of_process(process, mesh, divides_states(job)))
      bytes += devices[static_cast<std::size_t>(rank)].use.copies / copies_with_buddy;
    most = std::max(most, bytes);
  }
  return most;
}

namespace {

TrainJob estimated(TrainJob job, const std::optional<PlannedProcesses>& planned) {
  job.processes = nullptr;
  if (planned && planned->processes > 1) job.devices.gpus.clear();  // they are those of this process alone
  job.keeps_copies |= job.elastic == Elastic::takeover;
  return job;
}

// Leaves out what data between processes takes, because the job may run in fewer processes than the next one.
EndingMemory ending_memory(const TrainJob& of, const std::optional<PlannedProcesses>& planned) {
  const TrainJob job = estimated(of, planned);
  const ParallelLayout layout(job, nullptr, {});
  EndingMemory ending{{}, estimate_devices(layout, job)};
  for (const auto& [name, need] : memory_needs(layout, ending.devices)) ending.bytes[name] = need.bytes;
  return ending;
}

}  // namespace

JobEstimate estimate_job(const TrainJob& of, const std::optional<PlannedProcesses>& planned, const TrainJob* ending) {
  const TrainJob job = estimated(of, planned);
  const ParallelLayout layout(job, nullptr, planned);
  JobEstimate estimate{layout.plan(), layout.needs(), layout.parts(), estimate_devices(layout, job), {}, {}, {}};
  estimate.copied_bytes = most_copied_bytes(job, estimate.devices);
  if (layout.passes_copies())
    estimate.passed_bytes = most_passed_bytes(job, planned_mesh(layout.mesh(), planned), estimate.devices);
  estimate.shortage =
      memory_shortage(layout, job, estimate.devices, 0, ending != nullptr ? ending_memory(*ending, planned) : EndingMemory{});
  return estimate;
}

}  // namespace pipetrain
