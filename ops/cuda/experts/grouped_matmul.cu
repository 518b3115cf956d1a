// Grouped products of any type on any device, in tiles of 64 x 64. Sums over 16 numbers are fp32; with fp32 operands they are
// added in fp64.
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/experts/row_tiles.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"
#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int tile = 64, depth = 16, threads = 256;
constexpr int each = 4;  // a thread has 4 x 4 results, at a distance of 16 from each other

// An operand of a tile: element (i, d) for side i and depth d is at first + i * side + d * deep. Elements outside of the limits
// are zeros.
template <class T>
struct OperandView {
  const T* first;
  std::int64_t side, deep;
  int sides, depths;

  __device__ float at(int i, int d) const { return i < sides && d < depths ? to_float(first[i * side + d * deep]) : 0.0F; }
};

struct TileMemory {
  float a[depth][tile + 1], b[depth][tile + 1];
};

// Adjacent threads read adjacent elements of memory, along whichever axis those are.
template <class T>
__device__ void load_operand(const OperandView<T>& from, int first_depth, float (&to)[depth][tile + 1]) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * depth; i += threads) {
    const int d = from.deep == 1 ? i % depth : i / tile, side = from.deep == 1 ? i / depth : i % tile;
    to[d][side] = from.at(side, first_depth + d);
  }
}

template <class T>
__device__ void multiply(const OperandView<T>& a, const OperandView<T>& b, Real<T> (&sums)[each][each]) {
  __shared__ TileMemory memory;
  const int row = static_cast<int>(threadIdx.x) / 16, col = static_cast<int>(threadIdx.x) % 16;
  for (int first = 0; first < a.depths; first += depth) {
    load_operand(a, first, memory.a);
    load_operand(b, first, memory.b);
    __syncthreads();
    float part[each][each] = {};
#pragma unroll
    for (int d = 0; d < depth; ++d) {
#pragma unroll
      for (int i = 0; i < each; ++i)
#pragma unroll
        for (int j = 0; j < each; ++j) part[i][j] += memory.a[d][row + 16 * i] * memory.b[d][col + 16 * j];
    }
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) sums[i][j] += part[i][j];
    __syncthreads();
  }
}

template <class T, class O>
__device__ void store_tile(const Real<T> (&sums)[each][each], O* out, std::int64_t stride, int rows, int cols, bool adds) {
  const int row = static_cast<int>(threadIdx.x) / 16, col = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < each; ++i) {
#pragma unroll
    for (int j = 0; j < each; ++j) {
      if (row + 16 * i >= rows || col + 16 * j >= cols) continue;
      O& to = out[(row + 16 * i) * stride + col + 16 * j];
      to = from_float<O>(static_cast<float>(adds ? sums[i][j] + to_float(to) : sums[i][j]));
    }
  }
}

// n, k: the size of each expert's matrix.
template <class T, bool forward>
__global__ void __launch_bounds__(threads)
    rows_kernel(const T* in, const T* w, const int* offsets, T* out, int experts, int n, int k) {
  extern __shared__ int table[];
  wait_for_previous();
  const RowTiles tiles = find_row_tiles<tile>(offsets, experts, table);
  const int index = static_cast<int>(blockIdx.y), col = static_cast<int>(blockIdx.x) * tile;
  if (index >= tiles.count()) return;
  const int expert = tiles.expert_of(index), row = tiles.offsets[expert] + (index - tiles.before[expert]) * tile;
  const int inner = forward ? k : n, cols = forward ? n : k, rows = tiles.offsets[expert + 1] - row;
  const T* const matrix = w + static_cast<std::int64_t>(expert) * n * k;
  const OperandView<T> a{in + static_cast<std::int64_t>(row) * inner, inner, 1, rows, inner};
  const OperandView<T> b{matrix + (forward ? static_cast<std::int64_t>(col) * k : col), forward ? k : 1, forward ? 1 : k,
                         cols - col, inner};
  Real<T> sums[each][each] = {};
  multiply(a, b, sums);
  store_tile<T>(sums, out + static_cast<std::int64_t>(row) * cols + col, cols, rows, cols - col, false);
}

template <class T>
__global__ void __launch_bounds__(threads)
    weights_kernel(const T* dy, const T* x, const int* offsets, float* dw, int n, int k, bool adds) {
  wait_for_previous();
  const int expert = static_cast<int>(blockIdx.z), row = static_cast<int>(blockIdx.y) * tile,
            col = static_cast<int>(blockIdx.x) * tile;
  const int begin = offsets[expert], tokens = offsets[expert + 1] - begin;
  if (tokens == 0 && adds) return;
  const OperandView<T> a{dy + static_cast<std::int64_t>(begin) * n + row, 1, n, n - row, tokens};
  const OperandView<T> b{x + static_cast<std::int64_t>(begin) * k + col, 1, k, k - col, tokens};
  Real<T> sums[each][each] = {};
  multiply(a, b, sums);
  store_tile<T>(sums, dw + (static_cast<std::int64_t>(expert) * n + row) * k + col, k, n - row, k - col, adds);
}

int experts_of(const Tensor& offsets) { return static_cast<int>(offsets.elements() - 1); }

}  // namespace

void grouped_matmul(cudaStream_t stream, const GroupedMatmulArgs& args) {
  if (args.out.elements() == 0) return;
  const int experts = experts_of(args.offsets), n = static_cast<int>(args.w.rows()) / experts,
            k = static_cast<int>(args.w.cols());
  const dim3 grid(blocks_for(args.out.cols(), tile), blocks_for(args.out.rows(), tile) + static_cast<unsigned>(experts));
  with_type(args.in.dtype, "grouped_matmul", [&](auto t) {
    using T = typename decltype(t)::type;
    const auto kernel = args.kind == MatmulKind::forward ? rows_kernel<T, true> : rows_kernel<T, false>;
    launch(stream, kernel, grid, threads, row_tiles_bytes(experts), data_of<T>(args.in), data_of<T>(args.w),
           data_of<int>(args.offsets), data_of<T>(args.out), experts, n, k);
  });
}

void grouped_weight_grad(cudaStream_t stream, const GroupedWeightGradArgs& args) {
  if (args.dw.elements() == 0) return;
  const int experts = experts_of(args.offsets), n = static_cast<int>(args.dw.rows()) / experts,
            k = static_cast<int>(args.dw.cols());
  const dim3 grid(blocks_for(k, tile), blocks_for(n, tile), static_cast<unsigned>(experts));
  with_type(args.dy.dtype, "grouped_weight_grad", [&](auto t) {
    using T = typename decltype(t)::type;
    launch(stream, weights_kernel<T>, grid, threads, 0, data_of<T>(args.dy), data_of<T>(args.x), data_of<int>(args.offsets),
           data_of<float>(args.dw), n, k, args.accumulate == Accumulate::yes);
  });
}

}  // namespace pipetrain::cuda
