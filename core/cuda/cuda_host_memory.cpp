#include "core/cuda/cuda_host_memory.hpp"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "core/cuda/cuda_memory.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "core/threads/on_threads.hpp"

namespace pipetrain {
namespace {

// The driver allocates smaller blocks.
constexpr std::size_t large = std::size_t{1} << 28;

[[noreturn]] void too_little(std::size_t bytes, const std::string& what) {
  throw Error(ErrorKind::out_of_memory, "the host has too little memory that can be locked for " + what + ": " + gib(bytes) +
                                            " asked for; free memory or raise the limit (ulimit -l)");
}

void check(cudaError_t status, std::size_t bytes, const std::string& what, int device) {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is not sticky
    too_little(bytes, what);
  }
  cuda_check(status, "allocating " + gib(bytes) + " of host memory for " + what, device);
}

// Maps anonymous pages, which are not in memory yet.
Buffer map_pages(std::size_t bytes, const std::string& what) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) too_little(bytes, what);
  return Buffer(data, bytes, [bytes](void* memory) { munmap(memory, bytes); });
}

// The kernel zeroes each page at its first write: one thread does 2 GB/s of small pages, and so would the driver under
// its lock.
void make_pages(Buffer& memory) {
  madvise(memory.data(), memory.bytes(), MADV_HUGEPAGE);  // makes pages faster to create and to lock; not every kernel has them
  constexpr std::size_t piece = std::size_t{1} << 26, page = 4096;
  const unsigned threads = std::max(1U, std::thread::hardware_concurrency() / static_cast<unsigned>(cuda_device_count()));
  auto* const begin = static_cast<char*>(memory.data());
  on_threads(threads, (memory.bytes() + piece - 1) / piece, [&](std::size_t i) {
    char* const end = begin + std::min(memory.bytes(), (i + 1) * piece);
    for (volatile char* at = begin + i * piece; at < end; at += page) *at = 0;
  });
}

}  // namespace

Buffer allocate_locked_memory(std::size_t bytes, const std::string& what, int device) {
  cuda_check(cudaSetDevice(device), "choosing the device", device);
  if (bytes < large) {
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), bytes, what, device);
    return Buffer(data, bytes, [](void* memory) { cudaFreeHost(memory); });
  }
  Buffer pages = map_pages(bytes, what);
  make_pages(pages);
  void* const data = pages.data();
  check(cudaHostRegister(data, bytes, cudaHostRegisterPortable), bytes, what, device);
  return Buffer(data, bytes,
                [pages = std::make_shared<Buffer>(std::move(pages))](void* memory) { cudaHostUnregister(memory); });
}

Buffer lock_memory(void* begin, std::size_t bytes, int device) {
  cuda_check(cudaSetDevice(device), "choosing the device", device);
  const cudaError_t status = cudaHostRegister(begin, bytes, cudaHostRegisterPortable);
  if (status != cudaSuccess) {
    cudaGetLastError();  // clears the error, so that the next caller does not take it for its own
    throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(device) + ": locking " + gib(bytes) +
                                            " of host memory failed: " + cudaGetErrorString(status) + " (" +
                                            cudaGetErrorName(status) + ")");
  }
  return Buffer(begin, bytes, [](void* memory) {
    if (cudaHostUnregister(memory) != cudaSuccess) cudaGetLastError();  // the device was lost
  });
}

}  // namespace pipetrain
