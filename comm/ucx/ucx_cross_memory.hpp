// Reading the memory of another process of this machine (process_vm_readv), which costs one copy and no cooperation.
//
// UCX knows this way too (its transport "cma"), but not on connections whose peer's death is reported; ours must be. So large
// messages between processes of one machine are fetched here, and only their announcements travel over UCX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipetrain {

struct CrossMemory {
  std::int64_t pid = 0;
  std::uint64_t address = 0;  // there
};

// Whether all bytes came; errno tells why not.
bool read_cross_memory(const CrossMemory& from, void* to, std::size_t bytes) noexcept;

}  // namespace pipetrain
