// Memory of a GPU that other processes of its host reach as their own, through CUDA IPC. CUDA builds only.
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

// An address in another process: a handle always means a whole allocation.
struct ExportedMemory {
  cudaIpcMemHandle_t allocation{};
  std::uint64_t offset = 0;
};

// The memory must come from Device::allocate. Throws Error(unavailable) where the driver cannot share it.
ExportedMemory export_memory(const void* data, int device);

void write(WireWriter& out, const ExportedMemory& memory);
ExportedMemory read_exported_memory(WireReader& in);

// What this process has opened of others' memory, each allocation once a device. Thread-safe.
class ImportedMemory {
 public:
  ImportedMemory() = default;
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  ~ImportedMemory() { close(); }

  // Where `device`, of this process, reaches it; the other process may see other devices than this one. `owner` begins the text
  // of errors: "process 1". Throws Error(unavailable) where the devices cannot reach each other.
  void* open(const ExportedMemory& memory, int device, const std::string& owner);
  // All addresses become invalid; nothing that uses them may be under way.
  void close() noexcept;

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, void*> open_;  // by device and handle
};

}  // namespace pipetrain
