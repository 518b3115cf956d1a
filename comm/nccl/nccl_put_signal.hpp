// Puts of NCCL, since 2.29: a rank writes into its peer's memory, by copy engines where the GPUs share a host, and a signal
// follows that the peer can wait for. nccl_put_signal.cpp where nccl.h has them, no_nccl_put_signal.cpp where it is older. NCCL
// builds only.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

namespace pipetrain {

// As the functions of NCCL of these names: a communicator that does not block may need NcclComm::settle() after each.
class NcclPutSignal {
 public:
  // NCCL over InfiniBand loses puts beyond so many that are under way (nccl#2119).
  static constexpr int most_under_way = 255;

  virtual ~NcclPutSignal() = default;
  NcclPutSignal(const NcclPutSignal&) = delete;
  NcclPutSignal& operator=(const NcclPutSignal&) = delete;

  // Memory of the current device that can be a window.
  virtual ncclResult_t allocate(void** data, std::size_t bytes) const = 0;
  virtual ncclResult_t release(void* data) const = 0;
  // Whether the ranks of this communicator reach each other's windows.
  virtual bool possible(ncclComm_t comm) const = 0;
  // Each rank gives as many bytes of its own at the same time, and gets a name for those of all. Communicators take their
  // windows with them when they end.
  virtual ncclResult_t make_window(ncclComm_t comm, void* data, std::size_t bytes, void** window) const = 0;
  // Writes `bytes` of a window's memory here into the peer's memory of that window, from its begin. None: signals only.
  virtual ncclResult_t put(const void* data, std::size_t bytes, int peer, void* window, ncclComm_t comm,
                           cudaStream_t stream) const = 0;
  // The stream waits for the peer's next put, in the order in which the peer enqueued them.
  virtual ncclResult_t wait(int peer, ncclComm_t comm, cudaStream_t stream) const = 0;

 protected:
  NcclPutSignal() = default;
};

struct NcclPuts {
  const NcclPutSignal* functions = nullptr;  // null: there are none
  std::string missing;                       // why, for people
};

// Of this build and the library that is loaded. Throws as nccl(). Thread-safe.
const NcclPuts& nccl_puts();

}  // namespace pipetrain
