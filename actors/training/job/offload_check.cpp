#include "actors/training/job/offload_check.hpp"

#include <fmt/format.h>

#include "actors/training/job/combinations.hpp"
#include "actors/training/job/train_job.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "files/direct_file.hpp"
#include "files/write_error.hpp"

namespace pipetrain {

namespace {

// Calls `work`; what cannot be written there is about offload-to.
template <class Work>
auto placing_folder_errors(const Offload& offload, const Work& work) {
  try {
    return work();
  } catch (const WriteError& error) {
    throw Error(error.kind(), {"offload-to", offload.folder.string()}, error.reason());
  }
}

}  // namespace

void check_offload(const TrainJob& job) {
  const Offload& offload = job.offload;
  if (!offload.any()) return;
  if (offload.to_disk())
    return placing_folder_errors(offload, [&] { const DirectFile probe(offload.folder, DirectFile::alignment); });
  UsedFeatures used{job.devices.kind};
  used.add(Feature::host_offload, "offload", to_string(offload));
  check_combinations(used);
}

std::optional<Error> offload_shortage(const TrainJob& job, const std::vector<DeviceMemory>& devices,
                                      const std::vector<DeviceMemory>& ending) {
  const auto sum = [](const std::vector<DeviceMemory>& of, std::size_t MemoryUse::*place) {
    std::size_t bytes = 0;
    for (const DeviceMemory& device : of) bytes += device.use.*place;
    return bytes;
  };
  const std::size_t host = sum(devices, &MemoryUse::host), disk = sum(devices, &MemoryUse::disk);
  if (host > 0) {
    const std::size_t free = make_cpu_device(0, 1)->memory().free + sum(ending, &MemoryUse::host);
    if (host > free)
      return Error(ErrorKind::out_of_memory,
                   fmt::format("the host: what is offloaded needs about {} MiB and {} MiB are free; use fewer layers, or more "
                               "replicas on other hosts with zero 1",
                               host >> 20, free >> 20));
  }
  if (disk > 0) {
    const std::size_t free =
        placing_folder_errors(job.offload, [&] { return free_disk_bytes(job.offload.folder); }) + sum(ending, &MemoryUse::disk);
    if (disk > free)
      return Error(ErrorKind::input, {"offload-to", job.offload.folder.string()},
                   fmt::format("what is offloaded needs {} MiB and its disk has {} MiB free; make room, or take another disk",
                               disk >> 20, free >> 20));
  }
  return {};
}

}  // namespace pipetrain
