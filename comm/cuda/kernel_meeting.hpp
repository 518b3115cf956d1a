// What the ranks of one process share whose kernels meet in collectives: how large these are, and how they end. CUDA builds
// only.
#pragma once

#include <exception>
#include <mutex>
#include <set>
#include <vector>

#include "comm/groups.hpp"
#include "core/buffer.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Thread-safe, but for keep().
class KernelMeeting {
 public:
  KernelMeeting(const std::vector<Device*>& devices, GroupUse use);
  ~KernelMeeting();
  KernelMeeting(const KernelMeeting&) = delete;
  KernelMeeting& operator=(const KernelMeeting&) = delete;

  // Of a kernel.
  int most_blocks() const { return most_blocks_; }
  // Becomes 1: kernels look at it while they wait. In host memory that they reach.
  const int* aborted() const { return aborted_; }

  // The mailboxes live as long as this.
  void keep(std::vector<Buffer> mailboxes) { mailboxes_ = std::move(mailboxes); }

  // Whether a call may be enqueued on this stream; after an abort it fails instead.
  bool enter(CudaStream& stream);
  void forget(Stream* stream);
  // Ends the kernels that wait, and fails the streams that have entered.
  void abort(const std::exception_ptr& cause);

 private:
  const int most_blocks_;
  std::vector<Buffer> mailboxes_;
  int* aborted_ = nullptr;
  std::mutex mutex_;
  std::set<Stream*> streams_;
  std::exception_ptr cause_;
};

}  // namespace pipetrain
