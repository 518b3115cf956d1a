// The learned logits that add to the denominators of attention's softmax: see ops/cpu/attention/sinks.cpp.
#include "ops/cuda/attention/latent_kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int lanes = 8;  // threads that share one query of one head
constexpr int most_threads = 1024;

// The columns of one query and head: the same row of all tensors.
struct SinkRows {
  int heads, queries, dim;
  std::int64_t rows;  // of one head

  __device__ std::int64_t column(std::int64_t row, int head) const { return (row * heads + head) * dim; }
  __device__ std::int64_t statistic(std::int64_t row, int head) const {
    return (row / queries * heads + head) * queries + row % queries;
  }
};

template <class R>
__device__ R lanes_sum(R value) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

// blockIdx.y: the head. T: the output's type.
template <class T, class L, int W>
__global__ void __launch_bounds__(256) add_sinks_kernel(SinkRows of, const L* logits, T* out, float* log_sum_exp) {
  using R = Real<T>;
  wait_for_previous();
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes, head = static_cast<int>(blockIdx.y);
  const bool exists = row < of.rows;
  float& sums = log_sum_exp[of.statistic(exists ? row : 0, head)];
  const R keys = sums, sink = to_float(logits[head]), most = keys > sink ? keys : sink;
  const R both = most + log(exp(keys - most) + exp(sink - most)), share = exp(keys - both);
  __syncwarp();  // all lanes of the row have read its sum
  if (!exists) return;
  T* const at = out + of.column(row, head);
  for (int pack = lane; pack < of.dim / W; pack += lanes) {
    const auto in = load<W>(at, pack);
    R values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = share * in[i];
    store(at, pack, values);
  }
  if (lane == 0) sums = static_cast<float>(both);
}

// One block a head. A group of lanes takes every so many rows; the groups' sums are added in order.
template <class T, class L, int W>
__global__ void __launch_bounds__(most_threads)
    sinks_backward_kernel(SinkRows of, const L* logits, const T* dout, const T* out, const float* log_sum_exp, float* dlogits) {
  using R = Real<T>;
  constexpr int groups = most_threads / lanes;
  __shared__ double sums[groups];
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const int head = static_cast<int>(blockIdx.x);
  const R sink = to_float(logits[head]);
  double gradient = 0;
  for (std::int64_t first = 0; first < of.rows; first += groups) {
    const std::int64_t row = first + group;
    const bool exists = row < of.rows;
    R product = 0;
    for (int pack = lane; exists && pack < of.dim / W; pack += lanes) {
      const auto grad = load<W>(dout + of.column(row, head), pack), value = load<W>(out + of.column(row, head), pack);
#pragma unroll
      for (int i = 0; i < W; ++i) product += static_cast<R>(grad[i]) * value[i];
    }
    product = lanes_sum(product);
    if (exists && lane == 0) gradient -= exp(sink - log_sum_exp[of.statistic(row, head)]) * product;
  }
  if (lane == 0) sums[group] = gradient;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (const double one : sums) sum += one;
  dlogits[head] += static_cast<float>(sum);
}

SinkRows sink_rows(const Tensor& log_sum_exp, const Tensor& out) {
  const Shape& shape = log_sum_exp.shape;
  return {static_cast<int>(shape[1]), static_cast<int>(shape[2]), static_cast<int>(out.cols() / shape[1]), shape[0] * shape[2]};
}

// Calls body(T, L, W) for the types of the output and of the logits.
template <class Body>
void with_sink_types(const Tensor& out, const Tensor& logits, bool aligned, int dim, Body body) {
  with_types(out.dtype, logits.dtype, "sinks", [&](auto t, auto l) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && dim % full_width<T> == 0, [&](auto w) { body(t, l, w); });
  });
}

}  // namespace

void add_sinks(cudaStream_t stream, const SinksArgs& args) {
  const SinkRows of = sink_rows(args.log_sum_exp, args.out);
  if (of.rows == 0) return;
  with_sink_types(args.out, args.logits, aligned16(args.out.data), of.dim, [&](auto t, auto l, auto w) {
    using T = typename decltype(t)::type;
    using L = typename decltype(l)::type;
    launch(stream, add_sinks_kernel<T, L, decltype(w)::value>,
           dim3(blocks_for(of.rows, 256 / lanes), static_cast<unsigned>(of.heads)), 256, 0, of, data_of<L>(args.logits),
           data_of<T>(args.out), data_of<float>(args.log_sum_exp));
  });
}

void sinks_backward(cudaStream_t stream, const SinksBackwardArgs& args) {
  const SinkRows of = sink_rows(args.log_sum_exp, args.out);
  if (of.rows == 0) return;
  const bool aligned = aligned16(args.dout.data) && aligned16(args.out.data);
  with_sink_types(args.out, args.logits, aligned, of.dim, [&](auto t, auto l, auto w) {
    using T = typename decltype(t)::type;
    using L = typename decltype(l)::type;
    launch(stream, sinks_backward_kernel<T, L, decltype(w)::value>, static_cast<unsigned>(of.heads), most_threads, 0, of,
           data_of<L>(args.logits), data_of<T>(args.dout), data_of<T>(args.out), data_of<float>(args.log_sum_exp),
           data_of<float>(args.dlogits));
  });
}

}  // namespace pipetrain::cuda
