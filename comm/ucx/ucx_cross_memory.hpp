// Reads the memory of another process of this machine (process_vm_readv), which takes one copy and no cooperation.
//
// UCX can do this too (its transport "cma"), but not on connections that report a peer's death, as ours must. So large
// messages between processes of one machine are fetched here, and only their announcements travel over UCX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipetrain {

struct CrossMemory {
  std::int64_t pid = 0;
  std::uint64_t address = 0;  // in that process
};

// Returns true when all bytes were read; otherwise errno has the reason.
bool read_cross_memory(const CrossMemory& from, void* to, std::size_t bytes) noexcept;

}  // namespace pipetrain
