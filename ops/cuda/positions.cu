#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

// One block a token.
template <class T, int W>
__global__ void add_positions_kernel(std::int64_t first_token, std::int64_t sequence, const T* table, T* x, int cols) {
  wait_for_previous();
  const std::int64_t row = blockIdx.x, position = (first_token + row) % sequence;
  for (int pack = threadIdx.x; pack < cols / W; pack += blockDim.x) {
    const auto in = load<W>(x + row * cols, pack), add = load<W>(table + position * cols, pack);
    float out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = in[i] + add[i];
    store(x + row * cols, pack, out);
  }
}

// One block a position (blockIdx.y: a slice of its columns), which adds its tokens in order.
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

}  // namespace

void add_positions(cudaStream_t stream, std::int64_t first_token, std::int64_t sequence, const Tensor& table, const Tensor& x) {
  if (x.elements() == 0) return;
  with_type(x.dtype, "add_positions", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(table.data) && aligned16(x.data) && x.cols() % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      launch(stream, add_positions_kernel<T, W>, static_cast<unsigned>(x.rows()), 128, 0, first_token, sequence,
             data_of<T>(table), data_of<T>(x), static_cast<int>(x.cols()));
    });
  });
}

void positions_grad(cudaStream_t stream, std::int64_t first_token, std::int64_t sequence, const Tensor& dy,
                    const Tensor& dtable) {
  if (dy.elements() == 0) return;
  const int cols = static_cast<int>(dy.cols());
  with_type(dy.dtype, "positions_grad", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(dy.data) && aligned16(dtable.data) && cols % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const dim3 grid(static_cast<unsigned>(sequence), blocks_for(cols / W, 128));
      launch(stream, positions_grad_kernel<T, W>, grid, 128, 0, first_token, sequence, data_of<T>(dy), data_of<float>(dtable),
             dy.rows(), cols);
    });
  });
}

}  // namespace pipetrain::cuda
