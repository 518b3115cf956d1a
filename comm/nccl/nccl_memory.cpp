#include "comm/nccl/nccl_memory.hpp"

#include "comm/nccl/nccl_library.hpp"
#include "comm/nccl/nccl_put_signal.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {

Buffer NcclMemory::allocate(Device& device, std::size_t bytes, const std::string& what) {
  if (bytes == 0) return {};
  const NcclPutSignal& functions = *nccl_puts().functions;
  const int index = device.id().index;
  cuda_check(cudaSetDevice(index), "choosing the device", index);
  void* data = nullptr;
  if (const ncclResult_t result = functions.allocate(&data, bytes); result != ncclSuccess) {
    cudaGetLastError();
    throw Error(ErrorKind::out_of_memory, to_string(device.id()) + " has no memory for " + what + ": NCCL cannot allocate " +
                                              std::to_string(bytes) + " bytes (" + nccl().error_string(result) + ")");
  }
  {
    const std::lock_guard lock(given_->mutex);
    given_->begins.insert(data);
  }
  return Buffer(data, bytes, [&functions, index, given = given_](void* memory) {
    {
      const std::lock_guard lock(given->mutex);
      given->begins.erase(memory);
    }
    cudaSetDevice(index);
    functions.release(memory);  // fails only after the device was lost, when nothing can be freed
  });
}

bool NcclMemory::gave(const void* data) const {
  const std::lock_guard lock(given_->mutex);
  return given_->begins.count(data) > 0;
}

}  // namespace pipetrain
