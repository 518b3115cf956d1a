#include "core/cuda/cuda_driver.hpp"

#include <cudaTypedefs.h>

#include <string>

#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {

void* driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) {
    throw Error(ErrorKind::unavailable, std::string("this CUDA driver has no ") + name + ": update it");
  }
  return found;
}

namespace {

template <class Function>
Function entry(const char* name, unsigned version) {
  return reinterpret_cast<Function>(driver_function(name, version));
}

// The driver and the runtime number errors alike.
cudaError_t of_runtime(CUresult result) { return static_cast<cudaError_t>(result); }

}  // namespace

cudaError_t enqueue_write(cudaStream_t stream, void* target, std::uint32_t value) {
  static const auto write = entry<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32", 11070);
  return of_runtime(write(stream, reinterpret_cast<CUdeviceptr>(target), value, CU_STREAM_WRITE_VALUE_DEFAULT));
}

cudaError_t enqueue_wait_until(cudaStream_t stream, const void* source, std::uint32_t value) {
  static const auto wait = entry<PFN_cuStreamWaitValue32_v11070>("cuStreamWaitValue32", 11070);
  return of_runtime(wait(stream, reinterpret_cast<CUdeviceptr>(source), value, CU_STREAM_WAIT_VALUE_GEQ));
}

AllocationRange allocation_of(const void* address, int device) {
  static const auto range = entry<PFN_cuMemGetAddressRange_v3020>("cuMemGetAddressRange", 3020);
  cuda_check(cudaSetDevice(device), "choosing the device", device);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (range(&base, &bytes, reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS) {
    throw Error(ErrorKind::internal, "cuda:" + std::to_string(device) + ": an address outside all allocations");
  }
  return {reinterpret_cast<char*>(base), bytes};
}

}  // namespace pipetrain
