// The state that the ranks of one process share for collectives in which their kernels wait for each other: the size of the
// kernels, and what ends them. CUDA builds only.
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

// Thread-safe, except keep().
class KernelMeeting {
 public:
  explicit KernelMeeting(const std::vector<Device*>& devices);
  ~KernelMeeting();
  KernelMeeting(const KernelMeeting&) = delete;
  KernelMeeting& operator=(const KernelMeeting&) = delete;

  // of one kernel.
  int most_blocks() const { return most_blocks_; }
  // Returns a flag in host memory that kernels read while they wait; becomes 1 on abort.
  const int* aborted() const { return aborted_; }

  // Keeps the mailboxes as long as this object.
  void keep(std::vector<Buffer> mailboxes) { mailboxes_ = std::move(mailboxes); }

  // Returns true when a call may be enqueued on this stream; after an abort the stream fails instead.
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
