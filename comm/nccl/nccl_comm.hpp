// An NCCL communicator whose calls never block for long, so that a lost peer cannot delay its detection. NCCL builds only.
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

// Returns an id that all members of a new communicator need.
Bytes make_nccl_id();

struct NcclPlace {
  Bytes id;  // of make_nccl_id()
  int rank = 0, size = 2;
  int device = 0;
  int peer = 0;         // process of a peer, for error messages
  int most_blocks = 0;  // the most multiprocessors that its transfers take; 0: NCCL's default
};

class NcclComm {
 public:
  // Begins to join; settle() completes it. Throws Error as settle().
  explicit NcclComm(const NcclPlace& place);
  // Without failures it ends together with the peers, within some seconds; otherwise alone.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int peer() const { return peer_; }

  // Waits until the last call has been set up, as long as peers may take for that. Throws Error(peer_lost).
  void settle();
  // Combines all transfers that `enqueue` enqueues by send() and receive() into one: they progress together. One thread
  // at a time.
  void transfer(CudaStream& stream, const std::function<void()>& enqueue);
  // Only within transfer().
  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);
  void put(const void* data, std::size_t bytes, int to, void* window);
  void wait_for_put(int from);

  // True when its ranks can put into each other's memory; valid once it is settled.
  bool can_put() const;
  // See NcclPutSignal: waits until all ranks have made it. Throws as settle().
  void* make_window(void* data, std::size_t bytes);

  // Returns NCCL's error text; empty without a failure, as far as NCCL knows now. Thread-safe, never blocks.
  std::string failure() const;

  // Ends the running work of these communicators, on the GPUs and in calls: all of a process at once, because ending
  // one waits for its device. Each is ended only once. Thread-safe.
  static void abort(const std::vector<std::shared_ptr<NcclComm>>& comms) noexcept;

 private:
  int rank_, size_, device_, peer_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;   // of the running transfer
  mutable std::timed_mutex mutex_;  // held in calls of NCCL
  std::atomic<bool> aborting_{false};
  std::atomic<bool> aborted_{false};

  // Makes the process exit without unloading its libraries.
  static void end_fast() noexcept;
  void check(ncclResult_t result, const char* what);
  void settle_locked();
  bool finalize() noexcept;
};

}  // namespace pipetrain
