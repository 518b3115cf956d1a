// Rounds matrices to 8 bits with a scale for each tile of 128 numbers, or block of 128 x 128, in both layouts,
// reading them once.
#include <string>

#include "ops/cuda/gemm/fp8_tile.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

static_assert(tile == fp8_block);
constexpr int warps = tile_threads / 32;
constexpr int pairs = tile / 2;  // of adjacent columns

struct BlocksTask {
  const bf16* x;               // [m, n]
  unsigned char *rows, *cols;  // null: not wanted
  float *row_scales, *col_scales;
  std::int64_t m;
  int n;
  std::int64_t padded_m;
  std::int64_t row_stride, col_stride;  // of blocks: the distance from the scales of a row of blocks to those of the next
};

// A thread's numbers of the tile: 8 adjacent columns of 4 rows, twice.
struct ThreadNumbers {
  Pack<bf16, 8> at[8];

  __device__ unsigned word(int row, int pair) const { return reinterpret_cast<const unsigned*>(at[row].at)[pair]; }
  __device__ unsigned magnitudes(int row, int pair) const { return word(row, pair) & 0x7fff7fffU; }
};

// A thread's position: column counts in the tile; row_word(round) * 4 is the first of its 4 rows.
struct ThreadPosition {
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int column = lane % column_packs * 8;

  __device__ int row_word(int round) const { return round * 16 + warp / 4 * 8 + lane / column_packs * 4 + warp % 4; }
  __device__ int row(int i) const { return row_word(i / 4) * 4 + i % 4; }
};

// A bf16 is the upper half of a float.
__device__ float scale_of_bits(unsigned bits) { return scale_of<__NV_E4M3>(__uint_as_float(bits << 16)); }

__device__ ThreadNumbers load_numbers(const BlocksTask& task, const ThreadPosition& position, std::int64_t first_row,
                                      std::int64_t first_column) {
  ThreadNumbers numbers = {};
  const bool inside = first_column + position.column < task.n;
  const bf16* const from = task.x + first_row * task.n + first_column + position.column;
  const std::int64_t rows = task.m - first_row;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (inside && position.row(i) < rows) numbers.at[i] = load<8>(from + position.row(i) * task.n, 0);
  }
  return numbers;
}

// Computes the scale of each of the thread's rows, over all the tile's columns. 16 adjacent threads have the same rows.
__device__ void scales_of_rows(const ThreadNumbers& numbers, float (&scales)[8]) {
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    unsigned found[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const unsigned word = __vmaxu2(__vmaxu2(numbers.magnitudes(i + k, 0), numbers.magnitudes(i + k, 1)),
                                     __vmaxu2(numbers.magnitudes(i + k, 2), numbers.magnitudes(i + k, 3)));
      found[k] = max(word & 0xffffU, word >> 16);
    }
    unsigned both = found[0] | found[1] << 16;
#pragma unroll
    for (int step = 8; step > 0; step /= 2) both = __vmaxu2(both, __shfl_xor_sync(0xffffffffU, both, step));
    scales[i] = scale_of_bits(both & 0xffffU);
    scales[i + 1] = scale_of_bits(both >> 16);
  }
}

// Writes the scale of each column, over all the tile's rows, into `scales`. All threads call it, and see the
// scales afterwards.
__device__ void scales_of_columns(const ThreadNumbers& numbers, const ThreadPosition& position, float (&scales)[tile]) {
  __shared__ alignas(16) unsigned found[warps][pairs];
  unsigned own[4];
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    own[pair] = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) own[pair] = __vmaxu2(own[pair], numbers.magnitudes(i, pair));
    own[pair] = __vmaxu2(own[pair], __shfl_xor_sync(0xffffffffU, own[pair], 16));
  }
  if (position.lane < 16)
    *reinterpret_cast<uint4*>(&found[position.warp][position.column / 2]) = {own[0], own[1], own[2], own[3]};
  __syncthreads();
  if (threadIdx.x < pairs) {
    unsigned largest = 0;
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) largest = __vmaxu2(largest, found[warp][threadIdx.x]);
    scales[2 * threadIdx.x] = scale_of_bits(largest & 0xffffU);
    scales[2 * threadIdx.x + 1] = scale_of_bits(largest >> 16);
  }
  __syncthreads();
}

// Returns the scale of the whole tile. All threads call it.
__device__ float scale_of_tile(const ThreadNumbers& numbers) {
  __shared__ unsigned found[warps];
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) word = __vmaxu2(word, numbers.magnitudes(i, pair));
  }
  unsigned largest = __reduce_max_sync(0xffffffffU, max(word & 0xffffU, word >> 16));
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = largest;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < warps; ++warp) largest = max(largest, found[warp]);
  return scale_of_bits(largest);
}

// Rounds the 4 rows of one round in the thread's column j.
__device__ unsigned quantise_down(const ThreadNumbers& numbers, int round, int j, float scale) {
  const auto pair = [&](int i) -> unsigned {
    return __nv_cvt_float2_to_fp8x2({numbers.at[i][j] * scale, numbers.at[i + 1][j] * scale}, __NV_SATFINITE, __NV_E4M3);
  };
  return pair(round * 4) | pair(round * 4 + 2) << 16;
}

// Also zeroes the padding after the last block's scale, because products read it.
__device__ void write_block_scales(const BlocksTask& task, float inverse) {
  const std::int64_t x = blockIdx.x, y = blockIdx.y;
  if (task.rows != nullptr) {
    task.row_scales[y * task.row_stride + x] = inverse;
    if (x + 1 == gridDim.x)
      for (std::int64_t behind = x + 1; behind < task.row_stride; ++behind) task.row_scales[y * task.row_stride + behind] = 0;
  }
  if (task.cols != nullptr) {
    task.col_scales[x * task.col_stride + y] = inverse;
    if (y + 1 == gridDim.y)
      for (std::int64_t behind = y + 1; behind < task.col_stride; ++behind) task.col_scales[x * task.col_stride + behind] = 0;
  }
}

template <Fp8Scales kind>
__global__ void __launch_bounds__(tile_threads, 3) quantise_blocks_kernel(BlocksTask task) {
  __shared__ unsigned transposed[transposed_words];
  __shared__ float of_columns[tile];
  wait_for_previous();
  constexpr bool tiles = kind == Fp8Scales::tiles;
  const ThreadPosition position;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * tile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * tile;
  ThreadNumbers numbers = load_numbers(task, position, first_row, first_column);
  float of_rows[8];
  float of_block = 1;
  if constexpr (tiles) {
    if (task.cols != nullptr) scales_of_columns(numbers, position, of_columns);
    scales_of_rows(numbers, of_rows);
  } else {
    of_block = scale_of_tile(numbers);
    if (threadIdx.x == 0) write_block_scales(task, 1 / of_block);
  }

  if (task.rows != nullptr) {
    const bool inside = first_column + position.column < task.n;
    unsigned char* const to = task.rows + first_row * task.n + first_column + position.column;
    const std::int64_t rows = task.m - first_row;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (position.row(i) >= rows) continue;
      const float scale = tiles ? of_rows[i] : of_block;
      if (tiles && position.column == 0) task.row_scales[blockIdx.x * task.m + first_row + position.row(i)] = 1 / scale;
      if (inside)
        *reinterpret_cast<uint2*>(to + position.row(i) * task.n) = {quantise4<__NV_E4M3>(numbers.at[i].at, scale),
                                                                    quantise4<__NV_E4M3>(numbers.at[i].at + 4, scale)};
    }
  }
  if (task.cols == nullptr) return;
#pragma unroll
  for (auto& pack : numbers.at) forget(pack);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float scale = tiles ? of_columns[position.column + j] : of_block;
#pragma unroll
    for (int round = 0; round < 2; ++round)
      transposed[word_at(position.column + j, position.row_word(round))] = quantise_down(numbers, round, j, scale);
  }
  if (tiles && threadIdx.x < tile && first_column + threadIdx.x < task.n)
    task.col_scales[static_cast<std::int64_t>(blockIdx.y) * task.n + first_column + threadIdx.x] = 1 / of_columns[threadIdx.x];
  __syncthreads();
  write_transposed({task.cols, task.n, task.padded_m}, transposed, first_row, first_column);
}

}  // namespace

void quantise_blocks(cudaStream_t stream, const Tensor& x, const Fp8Matrix& out) {
  const bool wants_rows = out.rows.shape.rank() > 0, wants_cols = out.cols.shape.rank() > 0;
  const DType type = wants_rows ? out.rows.dtype : out.cols.dtype;
  if (x.dtype != DType::bf16 || type != DType::e4m3 || x.cols() % fp8_multiple != 0 || !aligned16(x.data))
    throw Error(ErrorKind::internal, std::string("quantise: no tiles or blocks in ") + to_string(type) + " of rows of " +
                                         std::to_string(x.cols()) + " in " + to_string(x.dtype));
  const std::int64_t padded = round_up_to_fp8(x.rows());
  const BlocksTask task{.x = data_of<bf16>(x),
                        .rows = wants_rows ? data_of<unsigned char>(out.rows) : nullptr,
                        .cols = wants_cols ? data_of<unsigned char>(out.cols) : nullptr,
                        .row_scales = wants_rows ? data_of<float>(out.row_scales) : nullptr,
                        .col_scales = wants_cols ? data_of<float>(out.col_scales) : nullptr,
                        .m = x.rows(),
                        .n = static_cast<int>(x.cols()),
                        .padded_m = padded,
                        .row_stride = wants_rows ? out.row_scales.shape[1] : 0,
                        .col_stride = wants_cols ? out.col_scales.shape[1] : 0};
  const dim3 blocks(blocks_for(x.cols(), tile), blocks_for(padded, tile));
  const bool tiles = out.scales == Fp8Scales::tiles;
  launch(stream, tiles ? quantise_blocks_kernel<Fp8Scales::tiles> : quantise_blocks_kernel<Fp8Scales::blocks>, blocks,
         tile_threads, 0, task);
}

}  // namespace pipetrain::cuda
