// Copies by the tensor memory accelerator of Hopper GPUs, asynchronous to the threads, the barriers in shared
// memory that count their bytes, and numbered barriers. PTX ISA 8.0: mbarrier, cp.async.bulk,
// cp.reduce.async.bulk, bar. Only for .cu files.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace pipetrain::cuda::hopper {

using Barrier = unsigned long long;

__device__ __forceinline__ std::uint32_t shared_address(const void* in_shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(in_shared));
}

// Called by one thread: initialises a barrier that completes after `arrivals` arrivals. Call publish_barriers()
// once all are initialised, so that the other threads see them.
__device__ __forceinline__ void make_barrier(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals));
}
__device__ __forceinline__ void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
// Arrives, and makes the barrier also wait for this many bytes of copies.
__device__ __forceinline__ void arrive_expecting(Barrier& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes) : "memory");
}
// Returns when the phase of this parity is complete. For a new barrier the phase before the first counts as
// complete: parity 1.
__device__ __forceinline__ void wait(Barrier& barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(
          shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

// Copies a box of a matrix, from column x and row y on.
__device__ __forceinline__ void load_box(void* to, const CUtensorMap& map, int x, int y, Barrier& barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   shared_address(to)),
               "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier))
               : "memory");
}
// Addresses and bytes must be multiples of 16.
__device__ __forceinline__ void load_bytes(void* to, const void* from, int bytes, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}
// The copies below move bytes that are needed only once: they leave the cache first.
__device__ __forceinline__ std::uint64_t once() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void load_bytes_once(void* to, const void* from, int bytes, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "l"(once())
      : "memory");
}
__device__ __forceinline__ void store_bytes_once(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes), "l"(once())
               : "memory");
}
// Returns when the stores that this thread has begun have read the shared memory.
__device__ __forceinline__ void wait_until_stores_have_read() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Adds 32-bit integers in shared memory to those in global memory; returns when the shared memory has been read.
__device__ __forceinline__ void add_integers(int* to, const int* from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Returns when the additions and stores that this thread has begun are complete.
__device__ __forceinline__ void wait_for_writes() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Makes this thread's writes to shared memory visible to asynchronous copies and products.
__device__ __forceinline__ void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Waits at the barrier of this number, 1 to 15, for this many threads, a multiple of 32.
__device__ __forceinline__ void sync_at(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_at(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

}  // namespace pipetrain::cuda::hopper
