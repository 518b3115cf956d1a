// Where what is offloaded lies between uses: memory of the host that a GPU copies to and from, or a disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/engine/stage_compute.hpp"
#include "core/device.hpp"
#include "model/config/offload.hpp"

namespace pipetrain {

// All zero at first. Not thread-safe: used by the rank's worker, and while it loads, by one thread at a time.
class OffloadPlace {
 public:
  virtual ~OffloadPlace() = default;
  OffloadPlace(const OffloadPlace&) = delete;
  OffloadPlace& operator=(const OffloadPlace&) = delete;

  // Positions, lengths and memory of the device: multiples of this many bytes.
  static constexpr std::size_t granularity = 4096;
  // Enqueued on the stream, which must be of the place's device: all fetches on one, all stores on another. `memory` is the
  // device's. A failure is the stream's.
  virtual void fetch(Stream& stream, std::size_t begin, void* memory, std::size_t bytes) = 0;
  virtual void store(Stream& stream, std::size_t begin, const void* memory, std::size_t bytes) = 0;

  // To and from ordinary memory, of any position and length, while nothing is enqueued; done when they return. Different bytes
  // may be written on several threads at once.
  virtual void read(std::size_t begin, void* target, std::size_t bytes) = 0;
  virtual void write(std::size_t begin, const void* source, std::size_t bytes) = 0;

 protected:
  OffloadPlace() = default;
};

struct PlaceBytes {
  std::size_t all = 0;
  std::size_t transfer = 0;  // the most that one fetch or store moves
};

// Throws Error(out_of_memory) that says `what`.
std::unique_ptr<OffloadPlace> make_host_place(Device& device, std::size_t bytes, const std::string& what);
// A CPU's streams read and write the file themselves; a GPU's go by way of make_staged_disk_place(). Throws what DirectFile
// does.
std::unique_ptr<OffloadPlace> make_disk_place(Device& device, const std::filesystem::path& folder, const PlaceBytes& bytes);
// By way of locked memory of the host, two pieces for each direction: while one is between the device and the host, the other
// one is between the host and the disk, on a thread for each direction. Also throws Error(out_of_memory).
std::unique_ptr<OffloadPlace> make_staged_disk_place(Device& device, const std::filesystem::path& folder,
                                                     const PlaceBytes& bytes);
// Of the host, that it takes for these transfers.
std::size_t staging_bytes(std::size_t transfer);

// Adds what is offloaded from the device, and what the host needs to carry it there. device: null where it is not open yet;
// then it counts as a CPU.
void add_offloaded(const PlaceBytes& bytes, const Offload& offload, const Device* device, MemoryUse& use);

}  // namespace pipetrain
