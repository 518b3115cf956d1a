// NCCL's puts, available since 2.29: a rank writes into its peer's memory, by copy engines where the GPUs share a host,
// followed by a signal that the peer can wait for. nccl_put_signal.cpp implements them where nccl.h has them,
// no_nccl_put_signal.cpp replaces them where it is older. NCCL builds only.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

namespace pipetrain {

// Wraps the functions of NCCL of these names: a communicator that does not block may need NcclComm::settle() after each.
class NcclPutSignal {
 public:
  // NCCL over InfiniBand loses puts when more than this many are in flight (nccl#2119).
  static constexpr int most_under_way = 255;

  virtual ~NcclPutSignal() = default;
  NcclPutSignal(const NcclPutSignal&) = delete;
  NcclPutSignal& operator=(const NcclPutSignal&) = delete;

  // Allocates memory of the current device that can be a window.
  virtual ncclResult_t allocate(void** data, std::size_t bytes) const = 0;
  virtual ncclResult_t release(void* data) const = 0;
  // True when the ranks of this communicator reach each other's windows.
  virtual bool possible(ncclComm_t comm) const = 0;
  // Each rank gives the same number of bytes of its own at the same time, and gets a handle for all of them. Windows
  // end with their communicator.
  virtual ncclResult_t make_window(ncclComm_t comm, void* data, std::size_t bytes, void** window) const = 0;
  // Writes `bytes` of a window's memory here to the beginning of the peer's memory of that window. 0 bytes: only signals.
  virtual ncclResult_t put(const void* data, std::size_t bytes, int peer, void* window, ncclComm_t comm,
                           cudaStream_t stream) const = 0;
  // The stream waits for the peer's next put, in the order in which the peer enqueued them.
  virtual ncclResult_t wait(int peer, ncclComm_t comm, cudaStream_t stream) const = 0;

 protected:
  NcclPutSignal() = default;
};

struct NcclPuts {
  const NcclPutSignal* functions = nullptr;  // null: not available
  std::string missing;                       // the reason, for people
};

// Returns the functions of this build and the loaded library. Throws as nccl(). Thread-safe.
const NcclPuts& nccl_puts();

}  // namespace pipetrain
