#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"
#include "ops/document_positions.hpp"

namespace pipetrain::cuda {
namespace {

// One block handles a token.
template <class T, int W>
__global__ void add_positions_kernel(std::int64_t first_token, std::int64_t sequence, const int* documents, const T* table,
                                     T* x, int cols) {
  wait_for_previous();
  const std::int64_t row = blockIdx.x, position = position_of(first_token + row, sequence, documents);
  for (int pack = threadIdx.x; pack < cols / W; pack += blockDim.x) {
    const auto in = load<W>(x + row * cols, pack), add = load<W>(table + position * cols, pack);
    float out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = in[i] + add[i];
    store(x + row * cols, pack, out);
  }
}

// One block handles a position (blockIdx.y: a slice of its columns), and adds its tokens in order.
template <class T, int W>
__global__ void positions_grad_kernel(std::int64_t first_token, std::int64_t sequence, const T* dy, float* dtable,
                                      std::int64_t rows, int cols) {
  wait_for_previous();
  constexpr int unroll = 4;
  const std::int64_t position = blockIdx.x;
  const std::int64_t first = (position - first_token % sequence + sequence) % sequence;
  const int pack = blockIdx.y * blockDim.x + threadIdx.x;
  if (first >= rows || pack >= cols / W) return;

  Real<T> sum[W];
  const auto old = load<W>(dtable + position * cols, pack);
#pragma unroll
  for (int i = 0; i < W; ++i) sum[i] = old[i];
  for (std::int64_t at = first; at < rows; at += unroll * sequence) {
    Pack<T, W> in[unroll] = {};
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const std::int64_t row = at + n * sequence;
      if (row < rows) in[n] = load<W>(dy + row * cols, pack);
    }
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += in[n][i];
    }
  }
  store(dtable + position * cols, pack, sum);
}

// For positions within documents, which any token may have: each block looks at all tokens.
template <class T>
__global__ void documents_grad_kernel(std::int64_t first_token, std::int64_t sequence, const int* documents, const T* dy,
                                      float* dtable, std::int64_t rows, int cols) {
  wait_for_previous();
  __shared__ bool counts[256];
  const std::int64_t position = blockIdx.x;
  const int col = blockIdx.y * blockDim.x + threadIdx.x;
  Real<T> sum = col < cols ? dtable[position * cols + col] : 0;
  bool any = false;
  for (std::int64_t row0 = 0; row0 < rows; row0 += blockDim.x) {
    const std::int64_t own = row0 + threadIdx.x;
    const bool own_counts = own < rows && position_of(first_token + own, sequence, documents) == position;
    if (__syncthreads_or(own_counts) == 0) continue;
    counts[threadIdx.x] = own_counts;
    __syncthreads();
    for (int i = 0; i < blockDim.x; ++i) {
      if (counts[i] && col < cols) sum += static_cast<Real<T>>(to_float(dy[(row0 + i) * cols + col]));
    }
    any = true;
  }
  if (any && col < cols) dtable[position * cols + col] = static_cast<float>(sum);
}

}  // namespace

void add_positions(cudaStream_t stream, const AddPositionsArgs& args) {
  const Tensor& x = args.x;
  if (x.elements() == 0) return;
  with_type(x.dtype, "add_positions", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(args.table.data) && aligned16(x.data) && x.cols() % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      launch(stream, add_positions_kernel<T, W>, static_cast<unsigned>(x.rows()), 128, 0, args.first_token, args.sequence,
             data_or_null<int>(args.documents), data_of<T>(args.table), data_of<T>(x), static_cast<int>(x.cols()));
    });
  });
}

void positions_grad(cudaStream_t stream, const PositionsGradArgs& args) {
  const Tensor& dy = args.dy;
  if (dy.elements() == 0) return;
  const int cols = static_cast<int>(dy.cols());
  with_type(dy.dtype, "positions_grad", [&](auto t) {
    using T = typename decltype(t)::type;
    if (args.documents) {
      const dim3 grid(static_cast<unsigned>(args.dtable.rows()), blocks_for(cols, 256));
      return launch(stream, documents_grad_kernel<T>, grid, 256, 0, args.first_token, args.sequence,
                    data_of<int>(*args.documents), data_of<T>(dy), data_of<float>(args.dtable), dy.rows(), cols);
    }
    with_width<T>(aligned16(dy.data) && aligned16(args.dtable.data) && cols % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const dim3 grid(static_cast<unsigned>(args.sequence), blocks_for(cols / W, 128));
      launch(stream, positions_grad_kernel<T, W>, grid, 128, 0, args.first_token, args.sequence, data_of<T>(dy),
             data_of<float>(args.dtable), dy.rows(), cols);
    });
  });
}

}  // namespace pipetrain::cuda
