// Sums down the columns of a matrix [rows, cols], in an order that follows from its shape and the chip: how kernels that make
// them cut it. A block has 32 packs of columns and 8 rows of threads, and takes a run of rows; its sums go to
// partial [runs, cols], which add_partials() adds up. Device code only.
#pragma once

#include <algorithm>

#include "model/cuda/launch.hpp"
#include "model/cuda/vector.cuh"

namespace pipetrain::cuda {

constexpr int column_packs = 32, column_rows = 8;
constexpr int column_threads = column_packs * column_rows;

struct ColumnGrid {
  std::int64_t run = 1;  // rows
  int runs = 1;
  dim3 blocks;

  // As many blocks as run at once, four a multiprocessor, so that none has to wait for others to end; fewer when runs would be
  // too short to pay for their partial sums.
  ColumnGrid(std::int64_t rows, std::int64_t packs, int multiprocessors) {
    rows = std::max<std::int64_t>(rows, 1);
    const auto across = ceil_div<std::int64_t>(packs, column_packs);
    const auto most = std::clamp<std::int64_t>(4 * multiprocessors / across, 1, ceil_div<std::int64_t>(rows, 32));
    run = ceil_div(rows, most);
    runs = static_cast<int>(ceil_div(rows, run));
    blocks = dim3(static_cast<unsigned>(across), static_cast<unsigned>(runs));
  }
  static dim3 threads() { return dim3(column_packs, column_rows); }
};

// The most that partial takes, in bytes, whatever the width of a pack.
inline std::size_t column_partials_bytes(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return static_cast<std::size_t>(ColumnGrid(rows, ceil_div<std::int64_t>(cols, 8), multiprocessors).runs * cols) *
         sizeof(float);
}

// Adds the sums of the block's rows of threads in order, into this run's place.
template <int W>
__device__ void write_partial(const float (&sums)[W], float* partial, int cols) {
  __shared__ float shared[column_rows][column_packs][W + 1];
#pragma unroll
  for (int i = 0; i < W; ++i) shared[threadIdx.y][threadIdx.x][i] = sums[i];
  __syncthreads();
  const int pack = blockIdx.x * column_packs + threadIdx.x;
  if (threadIdx.y != 0 || pack >= cols / W) return;
  float total[W] = {};
#pragma unroll
  for (int row = 0; row < column_rows; ++row) {
#pragma unroll
    for (int i = 0; i < W; ++i) total[i] += shared[row][threadIdx.x][i];
  }
  store(partial + static_cast<std::int64_t>(blockIdx.y) * cols, pack, total);
}

}  // namespace pipetrain::cuda
