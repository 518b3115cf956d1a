#include "actors/training/job_memory.hpp"

#include <map>
#include <string>

#include "actors/training/offload_check.hpp"
#include "core/device.hpp"

namespace pipetrain {
namespace {

constexpr const char* the_host = "the host";

struct MemoryNeed {
  std::size_t free = 0, bytes = 0;
};

// By name; the CPU's devices share the host's memory, each GPU has its own.
std::map<std::string, MemoryNeed> memory_needs(const ParallelLayout& layout, const std::vector<DeviceMemory>& devices) {
  std::map<std::string, MemoryNeed> needs;
  for (const auto& rank : devices) {
    const Device& device = layout.device(rank.rank);
    MemoryNeed& need = needs[device.id().kind == DeviceKind::cpu ? the_host : to_string(device.id())];
    need.free = device.memory().free;
    need.bytes += rank.use.total();
    if (rank.use.snapshot == 0) continue;
    MemoryNeed& host = needs[the_host];
    host.bytes += rank.use.snapshot + rank.use.host;
    if (host.free == 0) host.free = make_cpu_device(0, 1)->memory().free;
  }
  return needs;
}

// What makes a run smaller: the CPU's devices are parts of one host, and more of them have no more memory.
std::string remedies(const TrainJob& job, std::size_t recomputing, std::size_t need) {
  std::string text;
  if (recomputing < need) text += "recompute full (about " + std::to_string(recomputing >> 20) + " MiB then), ";
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
                                     const std::vector<DeviceMemory>& devices, std::size_t beside) {
  if (auto shortage = offload_shortage(job, devices)) return shortage;
  for (const auto& [name, need] : memory_needs(layout, devices)) {
    const std::size_t free = need.free, bytes = need.bytes + beside;
    if (bytes <= free) continue;
    TrainJob recomputing = job;
    recomputing.numerics.recompute = Recompute::full;
    const std::size_t less = memory_needs(layout, estimate_devices(layout, recomputing)).at(name).bytes + beside;
    return Error(ErrorKind::out_of_memory, name + ": the run needs about " + std::to_string(bytes >> 20) + " MiB and " +
                                               std::to_string(free >> 20) + " MiB are free; use " + remedies(job, less, bytes));
  }
  return {};
}

}  // namespace pipetrain
