#include "comm/cuda/kernel_meeting.hpp"

namespace pipetrain {
namespace {

// Enough to fill the links; and a number that nearly fills them while the other multiprocessors are left to matrix products.
constexpr int blocks_alone = 64, blocks_beside = 16;

}  // namespace

KernelMeeting::KernelMeeting(const std::vector<Device*>& devices, GroupUse use)
    : most_blocks_(use == GroupUse::alone ? blocks_alone : blocks_beside) {
  void* flag = nullptr;
  const int first = devices.front()->id().index;
  cuda_check(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocPortable | cudaHostAllocMapped), "making a group of GPUs", first);
  aborted_ = static_cast<int*>(flag);
  *aborted_ = 0;
}

KernelMeeting::~KernelMeeting() {
  mailboxes_.clear();  // waits for the kernels
  cudaFreeHost(aborted_);
}

bool KernelMeeting::enter(CudaStream& stream) {
  std::exception_ptr cause;
  {
    const std::lock_guard lock(mutex_);
    streams_.insert(&stream);
    cause = cause_;
  }
  if (cause) stream.fail(cause);
  return stream.begin();
}

void KernelMeeting::forget(Stream* stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

void KernelMeeting::abort(const std::exception_ptr& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_) return;
  cause_ = cause;
  *static_cast<volatile int*>(aborted_) = 1;
  for (Stream* stream : streams_) stream->fail(cause);
}

}  // namespace pipetrain
