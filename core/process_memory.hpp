// Reads the memory of another process of this machine.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace pipetrain {

// Copies bytes at an address of the process, which must not write or free them meanwhile, with several threads where they are
// many. Returns false where the kernel does not permit it, or the process has no such memory; `out` is then undefined.
bool read_process_memory(pid_t process, std::uint64_t address, void* out, std::size_t bytes);

}  // namespace pipetrain
