// What CUDA's driver has and its runtime has not, for CUDA files of core/, comm/ and ops/. Looked up through the runtime, so
// that nothing links the driver. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace pipetrain {

// The driver's function of that name as CUDA `version` declares it (12000: of CUDA 12.0). Throws Error(unavailable) where the
// driver has none.
void* driver_function(const char* name, unsigned version);

// Enqueues: once all work so far is done and seen by everybody, *target (device or registered host memory, as the device
// addresses it) becomes `value`. The stream's device is current.
cudaError_t enqueue_write(cudaStream_t stream, void* target, std::uint32_t value);
// Enqueues: later work waits until *source has reached `value`: their difference, as a signed number, is not negative.
cudaError_t enqueue_wait_until(cudaStream_t stream, const void* source, std::uint32_t value);

struct AllocationRange {
  char* base = nullptr;
  std::size_t bytes = 0;
};
// The allocation that an address of device memory lies in. Throws Error(internal) when it lies in none.
AllocationRange allocation_of(const void* address, int device);

}  // namespace pipetrain
