// The tiles of rows of a grouped product, found on the device, which alone knows how many rows each expert has. Only for .cu
// files.
#pragma once

#include <cuda_runtime.h>

namespace pipetrain::cuda {

// A list in shared memory: the first row of each expert, and the number of tiles before each expert's. The last entry of both
// is the number in all.
struct RowTiles {
  const int *offsets, *before;
  int experts;

  __device__ int count() const { return before[experts]; }
  // Returns the expert that tile `index` belongs to. Experts without rows have no tile.
  __device__ int expert_of(int index) const {
    int low = 0, high = experts;  // before[low] <= index < before[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (before[middle] <= index ? low : high) = middle;
    }
    return low;
  }
};

constexpr std::size_t row_tiles_bytes(std::int64_t experts) {
  return static_cast<std::size_t>(2 * (experts + 1)) * sizeof(int);
}

// Writes the list to `memory`, of row_tiles_bytes(). All threads of the block must call it, at least one whole warp.
template <int rows_of_tile>
__device__ RowTiles find_row_tiles(const int* offsets, int experts, int* memory) {
  int* const before = memory + experts + 1;
  for (int e = static_cast<int>(threadIdx.x); e <= experts; e += static_cast<int>(blockDim.x)) memory[e] = offsets[e];
  __syncthreads();
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    int so_far = 0;
    for (int first = 0; first < experts; first += 32) {
      const int e = first + lane;
      const int own = e < experts ? (memory[e + 1] - memory[e] + rows_of_tile - 1) / rows_of_tile : 0;
      int sum = own;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(~0U, sum, step);
        if (lane >= step) sum += other;
      }
      if (e < experts) before[e] = so_far + sum - own;
      so_far += __shfl_sync(~0U, sum, 31);
    }
    if (lane == 0) before[experts] = so_far;
  }
  __syncthreads();
  return {memory, before, experts};
}

}  // namespace pipetrain::cuda
