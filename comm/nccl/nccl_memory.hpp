// Memory of GPUs that NCCL can make windows of; memory of Device::allocate cannot be one. NCCL builds only.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "core/buffer.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Thread-safe. The buffers may outlive it.
class NcclMemory {
 public:
  // Allocates in units of 2 MiB. Throws Error (out_of_memory, peer_lost). Only where nccl_puts() has functions.
  Buffer allocate(Device& device, std::size_t bytes, const std::string& what);
  // True when this is the beginning of a live buffer of this object.
  bool gave(const void* data) const;

 private:
  struct Given {
    std::mutex mutex;
    std::set<const void*> begins;
  };
  std::shared_ptr<Given> given_ = std::make_shared<Given>();
};

}  // namespace pipetrain
