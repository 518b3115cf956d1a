// The inputs that both sets of attention gradient kernels share: dout, the forward's log-sum-exp, and delta,
// the sum of each row of dout * out (Dao 2023). Only for .cu files.
#pragma once

#include "ops/cuda/attention/attention.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

// delta [batch, heads, sequence] = sum over the head of dout * out. One warp computes one token and head. R:
// the type of the sums.
template <class R, class T, class O>
__global__ void delta_kernel(Heads h, std::int64_t rows, const T* __restrict__ dout, const O* __restrict__ out,
                             R* __restrict__ delta) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  R sum = 0;
  for (int d = threadIdx.x % 32; d < h.value; d += 32)
    sum += static_cast<R>(to_float(dout[row * h.value + d])) * static_cast<R>(to_float(out[row * h.value + d]));
  sum = warp_sum(sum);
  const std::int64_t token = row / h.heads, head = row % h.heads;
  const std::int64_t batch = token / h.sequence, position = token % h.sequence;
  if (threadIdx.x % 32 == 0) delta[(batch * h.heads + head) * h.sequence + position] = sum;
}

template <class T, class R>
struct Outputs {
  const T* dout;
  const float* log_sum_exp;
  const R* delta;

  __device__ const T* dout_head(const Heads& h, int batch, int head) const {
    return dout + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.value;
  }
};

// Writes delta [batch, heads, queries], and returns it with dout and the log-sum-exp.
template <class T, class O, class R>
Outputs<T, R> outputs_of(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, R* delta) {
  const std::int64_t rows = shape.tokens() * shape.heads;
  delta_kernel<R, T, O><<<blocks_for(rows, 8), 256, 0, stream>>>(heads_of(shape, args), rows, data_of<T>(args.dout),
                                                                 data_of<O>(args.out), delta);
  return {data_of<T>(args.dout), data_of<float>(args.log_sum_exp), delta};
}

}  // namespace pipetrain::cuda
