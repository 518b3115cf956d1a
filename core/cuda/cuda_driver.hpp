// Functions of CUDA's driver that its runtime lacks, for CUDA files of core/, comm/ and ops/. They are looked up
// through the runtime, so that nothing links the driver. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace pipetrain {

// Returns the driver's function of that name as CUDA `version` declares it (12000: of CUDA 12.0). Throws
// Error(unavailable) where the driver has none.
void* driver_function(const char* name, unsigned version);

// Enqueues a write of `value` to *target (device or registered host memory, at the device's address) after all previous
// work, whose results are visible by then. The stream's device must be current.
cudaError_t enqueue_write(cudaStream_t stream, void* target, std::uint32_t value);
// Enqueues a wait until *source has reached `value`: until their difference, as a signed number, is not negative.
cudaError_t enqueue_wait_until(cudaStream_t stream, const void* source, std::uint32_t value);

struct AllocationRange {
  char* base = nullptr;
  std::size_t bytes = 0;
};
// Returns the allocation that contains an address of device memory. Throws Error(internal) when there is none.
AllocationRange allocation_of(const void* address, int device);

}  // namespace pipetrain
