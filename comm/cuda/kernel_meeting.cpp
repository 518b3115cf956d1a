#include "comm/cuda/kernel_meeting.hpp"

namespace pipetrain {
namespace {

// Enough to fill the links. Fewer leave more multiprocessors to the products beside, but delay what waits for the collective by
// more than these gain: two H100 with ZeRO 2 take 1.301 s a step with 64 blocks, 1.311 with 32, 1.350 with 16, 1.442 with 8.
constexpr int blocks = 64;

}  // namespace

KernelMeeting::KernelMeeting(const std::vector<Device*>& devices) : most_blocks_(blocks) {
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
