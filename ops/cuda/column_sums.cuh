// Sums the columns of a matrix [rows, cols] in an order that depends only on its shape and the chip. A block
// has 32 packs of columns and 8 rows of threads, and processes a range of rows; its sums go to partial [ranges,
// cols], which add_partials() adds up. Device code only.
#pragma once

#include <algorithm>

#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

constexpr int column_packs = 32, column_rows = 8;
constexpr int column_threads = column_packs * column_rows;
constexpr int most_column_blocks = 6;  // at once on a multiprocessor; leaves 40 registers a thread

struct ColumnGrid {
  std::int64_t rows_each = 1;  // rows of a block
  int ranges = 1;
  dim3 blocks;

  // As many blocks as can run at once, `each` a multiprocessor, so that none has to wait for others to end;
  // fewer if the ranges would be too short to pay for their partial sums.
  ColumnGrid(std::int64_t rows, std::int64_t packs, int multiprocessors, int each) {
    rows = std::max<std::int64_t>(rows, 1);
    const auto across = ceil_div<std::int64_t>(packs, column_packs);
    const auto most = std::clamp<std::int64_t>(each * multiprocessors / across, 1, ceil_div<std::int64_t>(rows, 32));
    rows_each = ceil_div(rows, most);
    ranges = static_cast<int>(ceil_div(rows, rows_each));
    blocks = dim3(static_cast<unsigned>(across), static_cast<unsigned>(ranges));
  }
  static dim3 threads() { return dim3(column_packs, column_rows); }
};

// The most bytes that partial takes, whatever the width of a pack: never more than a range for every 32 rows,
// nor than a range for every block.
inline std::size_t column_partials_bytes(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  const auto across = ceil_div<std::int64_t>(ceil_div<std::int64_t>(cols, 8), column_packs);
  const auto ranges =
      std::max<std::int64_t>(std::min(most_column_blocks * multiprocessors / across, ceil_div<std::int64_t>(rows, 32)), 1);
  return static_cast<std::size_t>(ranges * cols) * sizeof(float);
}

// Calls read(n, row) for `batch` rows of a thread, n from 0, so that their loads are in flight together, then
// use(n, row) for each in order; repeats that through the block's range of rows.
template <int batch, class Read, class Use>
__device__ void for_rows_of_block(std::int64_t rows, std::int64_t rows_each, Read read, Use use) {
  const std::int64_t begin = blockIdx.y * rows_each, end = begin + rows_each < rows ? begin + rows_each : rows;
  std::int64_t row = begin + threadIdx.y;
  for (; row + (batch - 1) * column_rows < end; row += batch * column_rows) {
#pragma unroll
    for (int n = 0; n < batch; ++n) read(n, row + n * column_rows);
#pragma unroll
    for (int n = 0; n < batch; ++n) use(n, row + n * column_rows);
  }
  for (; batch > 1 && row < end; row += column_rows) {
    read(0, row);
    use(0, row);
  }
}

// Adds the sums of the block's rows of threads in order, and writes them as the sums of this range.
template <int W, class R>
__device__ void write_partial(const R (&sums)[W], float* partial, int cols) {
  __shared__ R shared[column_rows][column_packs][W + 1];
#pragma unroll
  for (int i = 0; i < W; ++i) shared[threadIdx.y][threadIdx.x][i] = sums[i];
  __syncthreads();
  const int pack = blockIdx.x * column_packs + threadIdx.x;
  if (threadIdx.y != 0 || pack >= cols / W) return;
  R total[W] = {};
#pragma unroll
  for (int row = 0; row < column_rows; ++row) {
#pragma unroll
    for (int i = 0; i < W; ++i) total[i] += shared[row][threadIdx.x][i];
  }
  store(partial + static_cast<std::int64_t>(blockIdx.y) * cols, pack, total);
}

}  // namespace pipetrain::cuda
