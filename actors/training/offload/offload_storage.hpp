// Storage for offloaded data between uses: host memory that a GPU copies to and from, or a disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/engine/stage_compute.hpp"
#include "core/device.hpp"
#include "model/config/offload.hpp"

namespace pipetrain {

// Initially zero. Not thread-safe: used by the rank's worker, and while it loads, by one thread at a time.
class OffloadStorage {
 public:
  virtual ~OffloadStorage() = default;
  OffloadStorage(const OffloadStorage&) = delete;
  OffloadStorage& operator=(const OffloadStorage&) = delete;

  // Positions, lengths and device addresses are multiples of this many bytes.
  static constexpr std::size_t granularity = 4096;
  // Enqueued on the stream, which must belong to the storage's device: all fetches on one stream, all stores on
  // another. `memory` is on the device. Failures go to the stream.
  virtual void fetch(Stream& stream, std::size_t begin, void* memory, std::size_t bytes) = 0;
  virtual void store(Stream& stream, std::size_t begin, const void* memory, std::size_t bytes) = 0;

  // Transfers between the storage and ordinary memory, of any position and length, while nothing is enqueued; done when
  // they return. Different bytes may be written on several threads at once.
  virtual void read(std::size_t begin, void* target, std::size_t bytes) = 0;
  virtual void write(std::size_t begin, const void* source, std::size_t bytes) = 0;

 protected:
  OffloadStorage() = default;
};

struct StorageBytes {
  std::size_t all = 0;
  std::size_t transfer = 0;  // the most bytes of one fetch or store
};

// what: names the memory in Error(out_of_memory).
std::unique_ptr<OffloadStorage> make_host_storage(Device& device, std::size_t bytes, const std::string& what);
// A CPU's streams read and write the file themselves; a GPU's use make_staged_disk_storage(). Throws as DirectFile does.
std::unique_ptr<OffloadStorage> make_disk_storage(Device& device, const std::filesystem::path& folder,
                                                  const StorageBytes& bytes);
// Stages transfers in locked host memory with two buffers for each direction: while one moves between device and host,
// the other moves between host and disk, on one thread for each direction. Also throws Error(out_of_memory).
std::unique_ptr<OffloadStorage> make_staged_disk_storage(Device& device, const std::filesystem::path& folder,
                                                         const StorageBytes& bytes);
// Returns the host memory that these transfers need.
std::size_t staging_bytes(std::size_t transfer);

// Adds the offloaded bytes, and the host memory that carries them. device: null where it is not open yet; it then
// counts as a CPU.
void add_offloaded(const StorageBytes& bytes, const Offload& offload, const Device* device, MemoryUse& use);

}  // namespace pipetrain
