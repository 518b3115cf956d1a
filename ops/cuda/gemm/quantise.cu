// Rounds matrices to 8 bits in both layouts, reading them once.
#include <algorithm>

#include "ops/cuda/gemm/fp8_tile.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/used_rows.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int unroll = 4;  // packs a thread: their loads are in flight together

struct LargestTask {
  const bf16* x;
  unsigned* largest;
  std::int64_t packs;
  const int* used;
  unsigned row_packs;
};

__global__ void largest_kernel(LargestTask task) {
  wait_for_previous();
  const std::int64_t packs = used_packs(task.used, task.row_packs, task.packs);
  constexpr int W = full_width<bf16>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * tile_threads * unroll;
  unsigned found = 0;  // the magnitudes of both halves of a word
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * tile_threads * unroll + threadIdx.x; first < packs;
       first += stride) {
    uint4 in[unroll] = {};
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (first + n * tile_threads < packs) in[n] = reinterpret_cast<const uint4*>(task.x)[first + n * tile_threads];
    }
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      for (const unsigned word : {in[n].x, in[n].y, in[n].z, in[n].w}) found = __vmaxu2(found, word & 0x7fff7fffU);
    }
  }
  static_assert(W == 8);
  // A bf16 is the upper half of a float.
  raise_by_block<float>(task.largest, max(found << 16, found & 0xffff0000U));
}

struct QuantiseTask {
  const bf16* x;               // [m, n]
  unsigned char *rows, *cols;  // null: not wanted
  float* scale;
  std::int64_t m, n, padded_m;
};

template <__nv_fp8_interpretation_t type>
__global__ void __launch_bounds__(tile_threads, 6) quantise_kernel(QuantiseTask task) {
  __shared__ unsigned transposed[transposed_words];
  wait_for_previous();
  const float scale = scale_of<type>(task.scale[1]);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) task.scale[0] = 1 / scale;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column = lane % column_packs * 8;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * tile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * tile;
  const bool inside = first_column + column < task.n;

  // Each thread takes 4 rows of 8 columns, twice, one after the other: many blocks on a multiprocessor hide the
  // memory's latency better than many loads of each thread.
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const int row_word = round * 16 + warp / 4 * 8 + lane / column_packs * 4 + warp % 4;
    const std::int64_t row = first_row + row_word * 4;
    const std::int64_t at = row * task.n + first_column + column;
    Pack<bf16, 8> in[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (inside && row + i < task.m) in[i] = load<8>(task.x, (at + i * task.n) / 8);
    }
    unsigned left[4], right[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      left[i] = quantise4<type>(in[i].at, scale);
      right[i] = quantise4<type>(in[i].at + 4, scale);
      if (task.rows != nullptr && inside && row + i < task.m)
        *reinterpret_cast<uint2*>(task.rows + at + i * task.n) = {left[i], right[i]};
    }
    if (task.cols == nullptr) continue;
    unsigned columns[2][4];
    transpose4(left, columns[0]);
    transpose4(right, columns[1]);
#pragma unroll
    for (int j = 0; j < 8; ++j) transposed[word_at(column + j, row_word)] = columns[j / 4][j % 4];
  }
  if (task.cols == nullptr) return;
  __syncthreads();
  write_transposed({task.cols, task.n, task.padded_m}, transposed, first_row, first_column);
}

}  // namespace

void largest_magnitude(cudaStream_t stream, const QuantiseArgs& args, int multiprocessors) {
  unsigned* const raised = begin_largest(stream, largest_of(args.out.scale));
  const std::int64_t packs = args.x.elements() / full_width<bf16>;
  if (packs == 0) return;
  const unsigned blocks = std::min(blocks_for(packs, tile_threads * unroll), static_cast<unsigned>(multiprocessors) * 8);
  const LargestTask task{.x = data_of<bf16>(args.x),
                         .largest = raised,
                         .packs = packs,
                         .used = used_or_null(args.used),
                         .row_packs = static_cast<unsigned>(args.x.cols() / full_width<bf16>)};
  launch(stream, largest_kernel, blocks, tile_threads, 0, task);
}

void quantise(cudaStream_t stream, const Tensor& x, const Fp8Matrix& out) {
  const bool wants_rows = out.rows.shape.rank() > 0, wants_cols = out.cols.shape.rank() > 0;
  const DType type = wants_rows ? out.rows.dtype : out.cols.dtype;
  if (x.dtype != DType::bf16 || x.cols() % fp8_multiple != 0 || !aligned16(x.data))
    throw Error(ErrorKind::internal, "quantise: not for rows of " + std::to_string(x.cols()) + " in " + to_string(x.dtype));
  const std::int64_t padded = round_up_to_fp8(x.rows());
  const QuantiseTask task{data_of<bf16>(x),
                          wants_rows ? data_of<unsigned char>(out.rows) : nullptr,
                          wants_cols ? data_of<unsigned char>(out.cols) : nullptr,
                          data_of<float>(out.scale),
                          x.rows(),
                          x.cols(),
                          padded};
  const dim3 blocks(blocks_for(x.cols(), tile), blocks_for(padded, tile));
  launch(stream, type == DType::e4m3 ? quantise_kernel<__NV_E4M3> : quantise_kernel<__NV_E5M2>, blocks, tile_threads, 0, task);
}

}  // namespace pipetrain::cuda
