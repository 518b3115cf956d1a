// Reads data from the memory of other processes of this machine, which announce it in messages.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/ucx/ucx_cross_memory.hpp"
#include "comm/ucx/ucx_presence.hpp"
#include "comm/ucx/ucx_shared_memory.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {

// True when the other process runs on the machine of this one.
bool is_on_this_machine(const ControlPlane& control, int process);

// On the worker's thread.
class UcxFetcher {
 public:
  UcxFetcher(UcxWorker& worker, ControlPlane& control, UcxPresence& presence)
      : worker_(worker), control_(control), presence_(presence) {}

  // Until unmap_memory(), data from this memory of that process is copied through a mapping, where it can be mapped.
  void map_memory(int process, const std::vector<SharedMemoryName>& names);
  void unmap_memory() { mapped_.clear(); }
  // Copies the data to `to`, then calls done(true). Where it cannot be read, the process is lost, and it calls done(false).
  void fetch(int process, const CrossMemory& from, std::byte* to, std::size_t bytes, std::function<void(bool)> done);

 private:
  bool read(int process, const CrossMemory& from, void* to, std::size_t bytes) const;

  UcxWorker& worker_;
  ControlPlane& control_;
  UcxPresence& presence_;
  std::map<int, std::vector<std::unique_ptr<MappedMemory>>> mapped_;  // by process
};

}  // namespace pipetrain
