// Causal attention without tensor cores, with the same bits in every run. Sums of fp32 tensors are fp64: exact,
// for checks and golden runs, whose first steps of Adam magnify rounding. 16-bit tensors, summed in fp32, are
// computed here if no other kernel takes them (attention_choice.cpp). Tiles of 32 queries by 32 keys with a
// running softmax (Dao 2023).
#include "ops/cuda/attention/attention_tile.cuh"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

template <class R>
__device__ R row_max(R value) {  // over the threads of a row
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) {
    const R other = __shfl_xor_sync(0xffffffffU, value, step);
    value = other > value ? other : value;
  }
  return value;
}

template <class R>
__device__ R row_sum(R value) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

// O: the output's type
template <class T, class O, int J, bool sparse>
__global__ void __launch_bounds__(threads) forward_kernel(Segment<T> s, O* __restrict__ out, float* __restrict__ log_sum_exp) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R weights[tile][tile + 1];
  const Heads& h = s.heads;
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  const KeyReach own = s.template reach<sparse>(batch, query), lowest = s.template reach<sparse>(batch, first);
  const int widest = max(h.dim, h.value);
  Rows q(memory, 0, widest), k(memory, 1, widest), v(memory, 2, widest);
  q.load(s.query_head(batch, head), s.q_cols, first, h.sequence, h.dim);

  R acc[J] = {}, largest = -INFINITY, total = 0;
  for (int key0 = s.template first_tile<sparse, tile>(lowest); key0 < s.keys && key0 < first + tile + s.ahead();
       key0 = s.template next_tile<sparse, tile>(lowest, key0)) {
    __syncthreads();
    k.load(s.key_head(batch, kv), s.kv_cols, key0, s.keys, h.dim);
    v.load(s.value_head(batch, kv), s.kv_cols, key0, s.keys, h.value);
    __syncthreads();
    R score[per_lane], top = largest;
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j;
      score[j] = s.template sees<sparse>(own, query, key0 + c) ? static_cast<R>(h.scale) * dot<R>(q.row(r), k.row(c), h.dim)
                                                               : -INFINITY;
      top = score[j] > top ? score[j] : top;
    }
    top = row_max(top);
    // Possibly this query has attended to no key so far.
    const R base = top == -INFINITY ? R{0} : top;
    const R shrink = exp(largest - base);
    R sum = 0;
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const R weight = exp(score[j] - base);
      weights[r][lane + lanes * j] = weight * s.factor(batch, head, query, key0 + lane + lanes * j);
      sum += weight;
    }
    total = total * shrink + row_sum(sum);
    largest = top;
#pragma unroll
    for (int j = 0; j < J; ++j) acc[j] *= shrink;
    __syncwarp();  // a row belongs to one warp
    accumulate(acc, weights[r], v, lane, h.value);
  }
  if (query >= h.sequence) return;
  const std::int64_t token = static_cast<std::int64_t>(batch) * h.sequence + query;
  write(out + (token * h.heads + head) * h.value, acc, total > 0 ? R{1} / total : R{0}, lane, h.value);
  if (lane == 0)
    log_sum_exp[(static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query] =
        static_cast<float>(largest + log(total));
}

template <class T>
void forward(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args) {
  with_type(args.out.dtype, "attention's output", [&](auto o) {
    using O = typename decltype(o)::type;
    if constexpr (std::is_same_v<O, T> || std::is_same_v<O, float>) {
      with_pattern(shape, [&](auto sparse) {
        with_head_size(widest_head(shape), [&](auto j) {
          launch(forward_kernel<T, O, decltype(j)::value, decltype(sparse)::value>,
                 {shape.queries, shape.heads, shape.batch, 3, widest_head(shape)}, stream, segment_of<T>(shape, args),
                 data_of<O>(args.out), data_of<float>(args.log_sum_exp));
        });
      });
    } else {
      throw Error(ErrorKind::internal, std::string("attention: no output in ") + to_string(args.out.dtype));
    }
  });
}

}  // namespace

void attention(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args) {
  if (shape.batch * shape.queries == 0) return;
  with_type(args.q.dtype, "attention", [&](auto t) { forward<typename decltype(t)::type>(stream, shape, args); });
}

}  // namespace pipetrain::cuda
