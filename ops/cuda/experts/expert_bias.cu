// The biases of the experts' matrices.
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int row_parts = 8;  // threads that share a column of an expert's rows

struct BiasView {
  const int* offsets;                         // [experts + 1]
  const float* weights;                       // [R], or null
  int experts, row_packs, first_pack, packs;  // packs: of one bias

  // Returns the expert of a row, which exists.
  __device__ int expert_of(int row) const {
    int low = 0, high = experts;  // offsets[low] <= row < offsets[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (offsets[middle] <= row ? low : high) = middle;
    }
    return low;
  }
  __device__ float weight(int row) const { return weights == nullptr ? 1.0F : weights[row]; }
  __device__ std::int64_t first(int row) const { return static_cast<std::int64_t>(row) * row_packs + first_pack; }
};

// One block a row.
template <class T, class B, int W>
__global__ void __launch_bounds__(threads) add_kernel(BiasView view, T* x, const B* bias) {
  using R = Real<T>;
  wait_for_previous();
  const int row = static_cast<int>(blockIdx.x);
  if (row >= view.offsets[view.experts]) return;
  const std::int64_t own = static_cast<std::int64_t>(view.expert_of(row)) * view.packs;
  const R weight = view.weight(row);
  for (int pack = static_cast<int>(threadIdx.x); pack < view.packs; pack += threads) {
    const auto in = load<W>(x, view.first(row) + pack);
    const auto added = load<W>(bias, own + pack);
    R out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = in[i] + weight * added[i];
    store(x, view.first(row) + pack, out);
  }
}

// One warp a row.
template <class T, class B, int W>
__global__ void __launch_bounds__(threads) dots_kernel(BiasView view, const T* dy, const B* bias, float* dots) {
  using R = Real<T>;
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(blockIdx.x * (threads / 32) + threadIdx.x / 32);
  if (row >= view.offsets[view.experts]) return;
  const std::int64_t own = static_cast<std::int64_t>(view.expert_of(row)) * view.packs;
  R dot = 0;
  for (int pack = lane; pack < view.packs; pack += 32) {
    const auto grad = load<W>(dy, view.first(row) + pack);
    const auto value = load<W>(bias, own + pack);
#pragma unroll
    for (int i = 0; i < W; ++i) dot += static_cast<R>(grad[i]) * value[i];
  }
  dot = warp_sum(dot);
  if (lane == 0) dots[row] = static_cast<float>(dot);
}

// A block adds the rows of 32 packs of columns of expert blockIdx.y. Each thread adds every eighth row of its pack, in order;
// then one thread of each pack adds the eight sums.
template <class T, int W>
__global__ void __launch_bounds__(32 * row_parts) sum_kernel(BiasView view, const T* dy, float* dbias) {
  using R = Real<T>;
  __shared__ R sums[row_parts][32 * W];
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x), pack = static_cast<int>(blockIdx.x) * 32 + lane,
            part = static_cast<int>(threadIdx.y), expert = static_cast<int>(blockIdx.y);
  const int end = view.offsets[expert + 1];
  R sum[W] = {};
  if (pack < view.packs) {
#pragma unroll 4
    for (int row = view.offsets[expert] + part; row < end; row += row_parts) {
      const auto grad = load<W>(dy, view.first(row) + pack);
      const R weight = view.weight(row);
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += weight * grad[i];
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i) sums[part][lane * W + i] = sum[i];
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * 32 * W;
  for (int i = part * 32 + lane; i < 32 * W; i += 32 * row_parts) {
    if (first + i >= view.packs * W) return;
    R all = 0;
    for (int other = 0; other < row_parts; ++other) all += sums[other][i];
    dbias[static_cast<std::int64_t>(expert) * view.packs * W + first + i] += static_cast<float>(all);
  }
}

// Calls body(T, B, W, view) for the types of the rows and of the biases.
template <class Args, class Body>
void with_biases(const Args& args, const Tensor& rows, Body body) {
  const std::int64_t experts = args.offsets.elements() - 1, cols = args.bias.elements() / experts;
  with_types(rows.dtype, args.bias.dtype, "biases of experts", [&](auto t, auto b) {
    using T = typename decltype(t)::type;
    constexpr int full = full_width<T>;
    const bool wide = rows.cols() % full == 0 && cols % full == 0 && args.first_column % full == 0 && aligned16(rows.data) &&
                      aligned16(args.bias.data);
    with_width<T>(wide, [&](auto w) {
      constexpr int W = decltype(w)::value;
      body(t, b, w,
           BiasView{.offsets = data_of<int>(args.offsets),
                    .weights = args.weights.shape.rank() == 0 ? nullptr : data_of<float>(args.weights),
                    .experts = static_cast<int>(experts),
                    .row_packs = static_cast<int>(rows.cols() / W),
                    .first_pack = static_cast<int>(args.first_column / W),
                    .packs = static_cast<int>(cols / W)});
    });
  });
}

}  // namespace

void add_expert_bias(cudaStream_t stream, const ExpertBiasArgs& args) {
  if (args.x.rows() == 0) return;
  with_biases(args, args.x, [&](auto t, auto b, auto w, const BiasView& view) {
    using T = typename decltype(t)::type;
    using B = typename decltype(b)::type;
    launch(stream, add_kernel<T, B, decltype(w)::value>, static_cast<unsigned>(args.x.rows()), threads, 0, view,
           data_of<T>(args.x), data_of<B>(args.bias));
  });
}

void expert_bias_backward(cudaStream_t stream, const ExpertBiasBackwardArgs& args) {
  if (args.dy.rows() == 0) return;
  with_biases(args, args.dy, [&](auto t, auto b, auto w, const BiasView& view) {
    using T = typename decltype(t)::type;
    using B = typename decltype(b)::type;
    constexpr int W = decltype(w)::value;
    if (args.dots.shape.rank() > 0)
      launch(stream, dots_kernel<T, B, W>, blocks_for(args.dy.rows(), threads / 32), threads, 0, view, data_of<T>(args.dy),
             data_of<B>(args.bias), data_of<float>(args.dots));
    launch(stream, sum_kernel<T, W>, dim3(blocks_for(view.packs, 32), static_cast<unsigned>(view.experts)), dim3(32, row_parts),
           0, view, data_of<T>(args.dy), data_of<float>(args.dbias));
  });
}

}  // namespace pipetrain::cuda
