// Clusters of blocks of Hopper GPUs, which write into each other's shared memory. PTX ISA 7.8: mapa,
// st.shared::cluster, barrier.cluster. The grid has one dimension. Only for .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace pipetrain::cuda::hopper {

__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ int cluster_size() {
  int size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

// Waits for all threads of the cluster; each then sees what all others wrote before it.
__device__ __forceinline__ void sync_cluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Writes to the same variable in the shared memory of the cluster's block `rank`, which must be running.
__device__ __forceinline__ void store_remote(int rank, float2* in_shared, float2 value) {
  const auto own = static_cast<std::uint32_t>(__cvta_generic_to_shared(in_shared));
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nst.shared::cluster.v2.f32 [there], {%2, %3};\n}" ::"r"(
          own),
      "r"(rank), "f"(value.x), "f"(value.y)
      : "memory");
}

}  // namespace pipetrain::cuda::hopper
