// The functions of NCCL that comm/ calls, from the library that is loaded at its first use. NCCL builds only.
#pragma once

#include <nccl.h>

#include <string>

namespace pipetrain {

struct NcclLibrary {
  int version = 0;  // encoded like NCCL_VERSION
  void* handle = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommGetAsyncError) comm_state = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;

  // Returns another function of the library; null where it has none of that name.
  void* find(const char* name) const;
};

// Loads it at the first call. Throws Error(unavailable) where the host has no library, or one that is too old. Thread-safe.
const NcclLibrary& nccl();

}  // namespace pipetrain
