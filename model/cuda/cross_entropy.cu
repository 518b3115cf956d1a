#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.hpp"
#include "model/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int row_threads = 512;
constexpr int unroll = 4;         // packs of a thread in flight together
constexpr float lowest = -1e30F;  // below every logit, yet lowest - lowest is a number

template <class T>
__device__ float exponential(float value) {
  if constexpr (sizeof(T) == 2) {
    float power;  // 2^-21 relative near 0, far below bf16, in two instructions
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value * 1.4426950408889634F));
    return power;
  } else {
    return expf(value);
  }
}

// A running softmax denominator: sum of exp(logit - largest) (Milakov and Gimelshein 2018).
struct Denominator {
  float largest = lowest, sum = 0;

  template <class T>
  __device__ void merge(float other_largest, float other_sum) {
    const float both = fmaxf(largest, other_largest);
    sum = sum * exponential<T>(largest - both) + other_sum * exponential<T>(other_largest - both);
    largest = both;
  }
};

template <class T>
__device__ Denominator block_denominator(Denominator mine) {
  __shared__ float largest[32], sum[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const float other_largest = __shfl_xor_sync(0xffffffffU, mine.largest, step);
    const float other_sum = __shfl_xor_sync(0xffffffffU, mine.sum, step);
    mine.merge<T>(other_largest, other_sum);
  }
  if (lane == 0) largest[warp] = mine.largest, sum[warp] = mine.sum;
  __syncthreads();
  Denominator all;
  for (int i = 0; i < row_threads / 32; ++i) all.merge<T>(largest[i], sum[i]);
  return all;
}

template <class T, int W>
struct Batch {
  Pack<T, W> in[unroll];
  int first;

  __device__ void fetch(const T* logits, int pack, int packs) {
    first = pack;
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (has(n, packs)) in[n] = load<W>(logits, first + n * row_threads);
    }
  }
  __device__ bool has(int n, int packs) const { return first + n * row_threads < packs; }
};

// This thread's share of a row's denominator; the next batch is on its way while this one is added.
template <class T, int W>
__device__ Denominator row_share(const T* logits, int packs) {
  Denominator mine;
  Batch<T, W> next;
  next.fetch(logits, threadIdx.x, packs);
  while (next.first < packs) {
    const Batch<T, W> batch = next;
    next.fetch(logits, batch.first + row_threads * unroll, packs);
    float top = mine.largest;
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
#pragma unroll
      for (int i = 0; i < W; ++i) {
        if (batch.has(n, packs)) top = fmaxf(top, batch.in[n][i]);
      }
    }
    mine.sum *= exponential<T>(mine.largest - top);
    mine.largest = top;
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (!batch.has(n, packs)) break;
#pragma unroll
      for (int i = 0; i < W; ++i) mine.sum += exponential<T>(batch.in[n][i] - top);
    }
  }
  return mine;
}

template <class T, int W>
__global__ void __launch_bounds__(row_threads)
    local_kernel(const T* __restrict__ logits, const int* __restrict__ targets, std::int64_t first_id, int cols,
                 float* __restrict__ largest, float* __restrict__ sum, float* __restrict__ target_logit) {
  const std::int64_t row = blockIdx.x;
  logits += row * cols;
  const Denominator all = block_denominator<T>(row_share<T, W>(logits, cols / W));
  if (threadIdx.x == 0) {
    const int target = targets[row];
    const std::int64_t col = target - first_id;
    largest[row] = all.largest;
    sum[row] = all.sum;
    target_logit[row] = target >= 0 && col >= 0 && col < cols ? to_float(logits[col]) : 0.0F;
  }
}

__global__ void rescale_kernel(int tokens, const float* __restrict__ own_largest, const float* __restrict__ largest,
                               float* __restrict__ sum) {
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token < tokens) sum[token] *= expf(own_largest[token] - largest[token]);
}

// One block: the order of the sum depends on the number of tokens only.
__global__ void loss_kernel(int tokens, const int* __restrict__ targets, const float* __restrict__ largest,
                            const float* __restrict__ sum, const float* __restrict__ target_logit,
                            float* __restrict__ log_sum_exp, double* __restrict__ loss_sum) {
  __shared__ double shared[1024];
  double loss = 0;
  for (int token = threadIdx.x; token < tokens; token += blockDim.x) {
    const float log_sum = logf(sum[token]);
    log_sum_exp[token] = largest[token] + log_sum;
    if (targets[token] >= 0) {
      loss += static_cast<double>(largest[token]) - static_cast<double>(target_logit[token]) + static_cast<double>(log_sum);
    }
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
    backward_kernel(T* __restrict__ logits, const int* __restrict__ targets, std::int64_t first_id, int cols,
                    const float* __restrict__ log_sum_exp, float scale) {
  const std::int64_t row = blockIdx.x;
  const int packs = cols / W;
  logits += row * cols;
  const int target = targets[row];
  const float log_sum = log_sum_exp[row];
  const float row_scale = target >= 0 ? scale : 0.0F;
  const std::int64_t target_col = target >= 0 ? target - first_id : -1;
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
      float out[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float hot = static_cast<std::int64_t>(pack) * W + i == target_col ? 1.0F : 0.0F;
        out[i] = row_scale * (exponential<T>(in[n][i] - log_sum) - hot);
      }
      store(logits, pack, out);
    }
  }
}

template <class Body>
void with_logits(const Tensor& logits, Body body) {
  with_type(logits.dtype, "cross_entropy", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(logits.data) && logits.cols() % full_width<T> == 0, [&](auto w) { body(t, w); });
  });
}

}  // namespace

void cross_entropy_local(cudaStream_t stream, const Tensor& logits, const Tensor& targets, std::int64_t first_id,
                         float* largest, float* sum, float* target_logit) {
  if (logits.rows() == 0) return;
  with_logits(logits, [&](auto t, auto w) {
    using T = typename decltype(t)::type;
    local_kernel<T, decltype(w)::value><<<static_cast<unsigned>(logits.rows()), row_threads, 0, stream>>>(
        data_of<T>(logits), data_of<int>(targets), first_id, static_cast<int>(logits.cols()), largest, sum, target_logit);
  });
}

void cross_entropy_rescale(cudaStream_t stream, std::int64_t tokens, const float* own_largest, const float* largest,
                           float* sum) {
  if (tokens == 0) return;
  rescale_kernel<<<blocks_for(tokens, 256), 256, 0, stream>>>(static_cast<int>(tokens), own_largest, largest, sum);
}

void cross_entropy_loss(cudaStream_t stream, const Tensor& targets, const float* largest, const float* sum,
                        const float* target_logit, const Tensor& log_sum_exp, const Tensor& loss_sum) {
  loss_kernel<<<1, 1024, 0, stream>>>(static_cast<int>(targets.elements()), data_of<int>(targets), largest, sum, target_logit,
                                      data_of<float>(log_sum_exp), data_of<double>(loss_sum));
}

void cross_entropy_backward(cudaStream_t stream, const Tensor& logits, const Tensor& targets, std::int64_t first_id,
                            const Tensor& log_sum_exp, float scale) {
  if (logits.rows() == 0) return;
  with_logits(logits, [&](auto t, auto w) {
    using T = typename decltype(t)::type;
    backward_kernel<T, decltype(w)::value><<<static_cast<unsigned>(logits.rows()), row_threads, 0, stream>>>(
        data_of<T>(logits), data_of<int>(targets), first_id, static_cast<int>(logits.cols()), data_of<float>(log_sum_exp),
        scale);
  });
}

}  // namespace pipetrain::cuda
