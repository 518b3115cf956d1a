// A communicator of NCCL, whose calls never block for long: a peer that is gone cannot hold up who must notice it. NCCL builds
// only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/nccl/nccl_library.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// Names a communicator to all who shall join it.
Bytes make_nccl_id();

struct NcclPlace {
  Bytes id;  // of make_nccl_id()
  int rank = 0, size = 2;
  int device = 0;
  int peer = 0;         // process of a peer, to be named when it fails
  int most_blocks = 0;  // multiprocessors that its transfers take at most; 0: as many as NCCL likes
};

class NcclComm {
 public:
  // Begins to join; settle() ends it. Throws Error as settle().
  explicit NcclComm(const NcclPlace& place);
  // Ends it with the peers where all is well, within some seconds; else alone.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int peer() const { return peer_; }

  // Waits until what was begun or enqueued last is set up, or as long as peers may take for it. Throws Error(peer_lost).
  void settle();
  // Makes all transfers that `enqueue` enqueues by send() and receive() one: they progress together. One thread at a time.
  void transfer(CudaStream& stream, const std::function<void()>& enqueue);
  // Only within transfer().
  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);
  void put(const void* data, std::size_t bytes, int to, void* window);
  void wait_for_put(int from);

  // Whether its ranks can put into each other's memory; once it is settled.
  bool can_put() const;
  // As NcclPutSignal: waits until all ranks have made it. Throws as settle().
  void* make_window(void* data, std::size_t bytes);

  // Empty while all is well, as far as can be asked now; else NCCL's words. Thread-safe, never blocks.
  std::string failure() const;

  // Ends what these have under way, on the GPUs and in calls: all of a process at once, because the end of one waits for its
  // device. Each ends once only. Thread-safe.
  static void abort(const std::vector<std::shared_ptr<NcclComm>>& comms) noexcept;

 private:
  int rank_, size_, device_, peer_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;   // of the transfer under way
  mutable std::timed_mutex mutex_;  // held in calls of NCCL
  std::atomic<bool> aborting_{false};
  std::atomic<bool> aborted_{false};

  // When the process ends, it does so without taking its libraries down.
  static void end_fast() noexcept;
  void check(ncclResult_t result, const char* what);
  void settle_locked();
  bool finalize() noexcept;
};

}  // namespace pipetrain
