// Memory of a GPU that other processes of its host address through CUDA IPC. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/wire.hpp"

namespace pipetrain {

// An address in another process: a handle always stands for a whole allocation.
struct ExportedMemory {
  cudaIpcMemHandle_t allocation{};
  std::uint64_t offset = 0;
};

// The memory must come from Device::allocate. Throws Error(unavailable) where the driver cannot share it.
ExportedMemory export_memory(const void* data, int device);

void write(WireWriter& out, const ExportedMemory& memory);
ExportedMemory read_exported_memory(WireReader& in);

// The memory of other processes that this process has opened, each allocation once per device. Thread-safe.
class ImportedMemory {
 public:
  ImportedMemory() = default;
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  ~ImportedMemory() { close(); }

  // Returns the address for `device`, of this process; the other process may see other devices. `owner` begins error
  // texts: "process 1". Throws Error(unavailable) where the devices cannot reach each other.
  void* open(const ExportedMemory& memory, int device, const std::string& owner);
  // All addresses become invalid; no work may use them any more.
  void close() noexcept;

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, void*> open_;  // by device and handle
};

}  // namespace pipetrain
