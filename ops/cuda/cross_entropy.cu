#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int row_threads = 512;
constexpr int unroll = 4;         // packs of a thread in flight together
constexpr float lowest = -1e30F;  // below every logit, yet lowest - lowest is a number

template <class R>
__device__ R warp_max(R value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(0xffffffffU, value, step));
  return value;
}

// One block handles a row and reads its logits once: each thread keeps the largest so far and the sum of exp(logit - largest);
// then warps and the block rescale the sums to a common largest (Milakov and Gimelshein 2018).
template <class T, int W>
__global__ void __launch_bounds__(row_threads, 3)
    local_kernel(const T* logits, int stride, const int* targets, std::int64_t first_id, int cols, float* largest, float* sum,
                 float* target_logit) {
  using R = Real<T>;
  __shared__ R tops[32], totals[32];
  wait_for_previous();
  const std::int64_t row = blockIdx.x;
  const int packs = cols / W;
  logits += row * stride;
  R top = lowest, total = 0;
  const int rest = packs * W + threadIdx.x;  // past the last whole pack
  if (rest < cols) top = to_float(logits[rest]), total = 1;
  for (int first = threadIdx.x; first < packs; first += row_threads * unroll) {
    Pack<T, W> in[unroll];
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (first + n * row_threads < packs) in[n] = load<W>(logits, first + n * row_threads);
    }
    const R before = top;
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (first + n * row_threads >= packs) break;
#pragma unroll
      for (int i = 0; i < W; ++i) top = max(top, static_cast<R>(in[n][i]));
    }
    total *= exponential<T>(before - top);
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (first + n * row_threads >= packs) break;
      forget(in[n]);
#pragma unroll
      for (int i = 0; i < W; ++i) total += exponential<T>(in[n][i] - top);
    }
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const R warp_top = warp_max(top);
  total = warp_sum(total * exponential<T>(top - warp_top));
  if (lane == 0) tops[warp] = warp_top, totals[warp] = total;
  __syncthreads();
  if (warp != 0) return;
  top = lane < row_threads / 32 ? tops[lane] : R{lowest};
  total = lane < row_threads / 32 ? totals[lane] : R{0};
  const R row_top = warp_max(top);
  total = warp_sum(total * exponential<T>(top - row_top));
  if (lane == 0) {
    const int target = targets[row];
    const std::int64_t col = target - first_id;
    largest[row] = static_cast<float>(row_top);
    sum[row] = static_cast<float>(total);
    target_logit[row] = target >= 0 && col >= 0 && col < cols ? to_float(logits[col]) : 0.0F;
  }
}

__global__ void rescale_kernel(int tokens, const float* own_largest, const float* largest, float* sum) {
  wait_for_previous();
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token < tokens) sum[token] *= expf(own_largest[token] - largest[token]);
}

// A single block, so that the order of the sum depends on the number of tokens only.
__global__ void loss_kernel(int tokens, const int* targets, const float* largest, const float* sum, const float* target_logit,
                            float* log_sum_exp, double* loss_sum, float* token_losses) {
  __shared__ double shared[1024];
  wait_for_previous();
  double loss = 0;
  for (int token = threadIdx.x; token < tokens; token += blockDim.x) {
    const double log_sum = log(static_cast<double>(sum[token]));
    log_sum_exp[token] = static_cast<float>(largest[token] + log_sum);
    const double own =
        targets[token] >= 0 ? static_cast<double>(largest[token]) - static_cast<double>(target_logit[token]) + log_sum : 0.0;
    loss += own;
    if (token_losses != nullptr) token_losses[token] = static_cast<float>(own);
  }
  shared[threadIdx.x] = loss;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss_sum = shared[0];
}

template <class T, int W>
__global__ void __launch_bounds__(row_threads)
    backward_kernel(T* logits, int stride, const int* targets, std::int64_t first_id, int cols, const float* log_sum_exp,
                    float scale, const float* token_scales) {
  wait_for_previous();
  const std::int64_t row = blockIdx.x;
  const int packs = cols / W;
  logits += row * stride;
  const int target = targets[row];
  const float log_sum = log_sum_exp[row];
  const float row_scale = target < 0 ? 0.0F : token_scales == nullptr ? scale : scale * token_scales[row];
  const std::int64_t target_col = target >= 0 ? target - first_id : -1;
  const auto gradient = [=](float logit, int col) {
    return row_scale * (exponential<T>(static_cast<Real<T>>(logit) - log_sum) - (col == target_col ? 1 : 0));
  };
  const int rest = packs * W + threadIdx.x;  // past the last whole pack
  if (rest < stride)
    logits[rest] = from_float<T>(rest < cols ? static_cast<float>(gradient(to_float(logits[rest]), rest)) : 0.0F);
  for (int first = threadIdx.x; first < packs; first += row_threads * unroll) {
    Pack<T, W> in[unroll];
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const int pack = first + n * row_threads;
      if (pack < packs) in[n] = load<W>(logits, pack);
    }
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const int pack = first + n * row_threads;
      if (pack >= packs) break;
      Real<T> out[W];
#pragma unroll
      for (int i = 0; i < W; ++i) out[i] = gradient(in[n][i], pack * W + i);
      store(logits, pack, out);
    }
  }
}

// One block handles a range of tokens.
template <class T>
__global__ void counted_rows_kernel(const T* logits, int stride, const int* targets, int length, int cols, double* rows) {
  __shared__ int last;
  wait_for_previous();
  const std::int64_t run = blockIdx.x;
  if (threadIdx.x == 0) last = -1;
  __syncthreads();
  int found = -1;
  for (int token = threadIdx.x; token < length; token += blockDim.x) {
    if (targets[run * length + token] >= 0) found = token;
  }
  atomicMax(&last, found);
  __syncthreads();
  const T* from = logits + (run * length + last) * stride;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) rows[run * cols + col] = last < 0 ? 0.0 : to_float(from[col]);
}

template <class Body>
void with_logits(const Tensor& logits, Body body) {
  with_type(logits.dtype, "cross_entropy", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(logits.data) && logits.cols() % full_width<T> == 0, [&](auto w) { body(t, w); });
  });
}

}  // namespace

void cross_entropy_local(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found) {
  const Tensor& logits = args.logits;
  if (logits.rows() == 0) return;
  with_logits(logits, [&](auto t, auto w) {
    using T = typename decltype(t)::type;
    launch(stream, local_kernel<T, decltype(w)::value>, static_cast<unsigned>(logits.rows()), row_threads, 0,
           data_of<T>(logits), static_cast<int>(logits.cols()), data_of<int>(args.targets), args.vocabulary.first,
           static_cast<int>(args.vocabulary.count), found.largest, found.sum, found.target_logit);
  });
}

void cross_entropy_rescale(cudaStream_t stream, std::int64_t tokens, const float* own_largest, const LossSums& found) {
  if (tokens == 0) return;
  launch(stream, rescale_kernel, blocks_for(tokens, 256), 256, 0, static_cast<int>(tokens), own_largest, found.largest,
         found.sum);
}

void cross_entropy_loss(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found) {
  launch(stream, loss_kernel, 1, 1024, 0, static_cast<int>(args.targets.elements()), data_of<int>(args.targets), found.largest,
         found.sum, found.target_logit, data_of<float>(args.log_sum_exp), data_of<double>(args.loss_sum),
         args.token_losses ? data_of<float>(*args.token_losses) : nullptr);
}

void cross_entropy_backward(cudaStream_t stream, const CrossEntropyBackwardArgs& args) {
  const Tensor& logits = args.logits;
  if (logits.rows() == 0) return;
  with_logits(logits, [&](auto t, auto w) {
    using T = typename decltype(t)::type;
    launch(stream, backward_kernel<T, decltype(w)::value>, static_cast<unsigned>(logits.rows()), row_threads, 0,
           data_of<T>(logits), static_cast<int>(logits.cols()), data_of<int>(args.targets), args.vocabulary.first,
           static_cast<int>(args.vocabulary.count), data_of<float>(args.log_sum_exp), args.scale,
           args.token_scales ? data_of<float>(*args.token_scales) : nullptr);
  });
}

void counted_rows(cudaStream_t stream, const Tensor& logits, const Tensor& targets, const Tensor& rows) {
  const std::int64_t runs = rows.shape[0], cols = rows.shape[1];
  with_type(logits.dtype, "counted_rows", [&](auto t) {
    using T = typename decltype(t)::type;
    launch(stream, counted_rows_kernel<T>, static_cast<unsigned>(runs), 256, 0, data_of<T>(logits),
           static_cast<int>(logits.cols()), data_of<int>(targets), static_cast<int>(targets.elements() / runs),
           static_cast<int>(cols), data_of<double>(rows));
  });
}

}  // namespace pipetrain::cuda
