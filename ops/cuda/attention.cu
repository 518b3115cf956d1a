// Causal attention without tensor cores, the same bits every time. Of fp32 tensors, summed in fp64: exact, for checks and
// golden runs, whose first steps of Adam magnify rounding. Of f16 tensors, and bf16 ones whose heads are too large for
// attention_mma.cu, summed in fp32, where something is dropped or documents share a sequence; else these go through cuDNN
// (attention_cudnn.cpp). Tiles of 32 queries by 32 keys with a running softmax (Dao 2023).
#include "ops/cuda/attention.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int tile = 32;  // queries and keys of a tile
constexpr int lanes = 8;  // threads that share a row of a tile
constexpr int threads = tile * lanes;
constexpr int per_lane = tile / lanes;

// A tile of rows of one head in shared memory, one float of padding a row; rows past the sequence are zero.
struct Rows {
  float* at;
  int stride;

  __device__ Rows(float* memory, int index, int dim) : at(memory + index * tile * (dim + 1)), stride(dim + 1) {}
  __device__ const float* row(int r) const { return at + r * stride; }
  template <class T>
  __device__ void load(const T* head, std::int64_t row_stride, int first, int sequence, int dim) {
    for (int i = threadIdx.x; i < tile * dim; i += threads) {
      const int r = i / dim, d = i % dim;
      at[r * stride + d] = first + r < sequence ? to_float(head[(first + r) * row_stride + d]) : 0.0F;
    }
  }
};

// R: what sums are kept in, Real of the tensors' type.
template <class R>
__device__ R dot(const float* a, const float* b, int dim) {
  R sum = 0;
  for (int d = 0; d < dim; ++d) sum += static_cast<R>(a[d]) * static_cast<R>(b[d]);
  return sum;
}

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

// acc += weights [tile] x rows, for the elements of this thread: d = lane + lanes * j.
template <class R, int J>
__device__ void accumulate(R (&acc)[J], const R* weights, const Rows& rows, int lane, int dim) {
  for (int c = 0; c < tile; ++c) {
    const R weight = weights[c];
    const float* row = rows.row(c);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      if (lane + lanes * j < dim) acc[j] += weight * static_cast<R>(row[lane + lanes * j]);
    }
  }
}

template <class T, class R, int J>
__device__ void write(T* out, const R (&acc)[J], R factor, int lane, int dim) {
#pragma unroll
  for (int j = 0; j < J; ++j) {
    if (lane + lanes * j < dim) out[lane + lanes * j] = from_float<T>(static_cast<float>(acc[j] * factor));
  }
}

template <class T, int J>
__global__ void __launch_bounds__(threads)
    forward_kernel(Heads h, const T* __restrict__ qkv, T* __restrict__ out, float* __restrict__ log_sum_exp) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R weights[tile][tile + 1];
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  const int begin = h.begin(batch, query);
  Rows q(memory, 0, h.dim), k(memory, 1, h.dim), v(memory, 2, h.dim);
  q.load(packed_head(qkv, h, batch, head), h.packed(), first, h.sequence, h.dim);

  R acc[J] = {}, largest = -INFINITY, total = 0;
  for (int key0 = h.begin(batch, first) / tile * tile; key0 <= first; key0 += tile) {
    __syncthreads();
    k.load(packed_head(qkv, h, batch, h.heads + kv), h.packed(), key0, h.sequence, h.dim);
    v.load(packed_head(qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), key0, h.sequence, h.dim);
    __syncthreads();
    R score[per_lane], top = largest;
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j, key = key0 + c;
      score[j] = begin <= key && key <= query ? static_cast<R>(h.scale) * dot<R>(q.row(r), k.row(c), h.dim) : -INFINITY;
      top = score[j] > top ? score[j] : top;
    }
    top = row_max(top);
    // No key of a tile may count for this query as yet.
    const R base = top == -INFINITY ? R{0} : top;
    const R shrink = exp(largest - base);
    R sum = 0;
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const R weight = exp(score[j] - base);
      weights[r][lane + lanes * j] = weight * h.factor(batch, head, query, key0 + lane + lanes * j);
      sum += weight;
    }
    total = total * shrink + row_sum(sum);
    largest = top;
#pragma unroll
    for (int j = 0; j < J; ++j) acc[j] *= shrink;
    __syncwarp();  // a row belongs to one warp
    accumulate(acc, weights[r], v, lane, h.dim);
  }
  if (query >= h.sequence) return;
  const std::int64_t token = static_cast<std::int64_t>(batch) * h.sequence + query;
  write(out + (token * h.heads + head) * h.dim, acc, R{1} / total, lane, h.dim);
  if (lane == 0)
    log_sum_exp[(static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query] =
        static_cast<float>(largest + log(total));
}

// delta [batch, heads, sequence] = sum over the head of dout * out. One warp a token and head.
template <class T>
__global__ void delta_kernel(Heads h, std::int64_t rows, const T* __restrict__ dout, const T* __restrict__ out,
                             double* __restrict__ delta) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  double sum = 0;
  for (int d = threadIdx.x % 32; d < h.dim; d += 32) {
    sum += static_cast<double>(to_float(dout[row * h.dim + d])) * static_cast<double>(to_float(out[row * h.dim + d]));
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  const std::int64_t token = row / h.heads, head = row % h.heads;
  const std::int64_t batch = token / h.sequence, position = token % h.sequence;
  if (threadIdx.x % 32 == 0) delta[(batch * h.heads + head) * h.sequence + position] = sum;
}

template <class T, int J>
__global__ void __launch_bounds__(threads)
    dq_kernel(Heads h, const T* __restrict__ dout, const T* __restrict__ qkv, const float* __restrict__ log_sum_exp,
              const double* __restrict__ delta, T* __restrict__ dqkv) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R dscore[tile][tile + 1];
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  const int begin = h.begin(batch, query);
  Rows q(memory, 0, h.dim), g(memory, 1, h.dim), k(memory, 2, h.dim), v(memory, 3, h.dim);
  q.load(packed_head(qkv, h, batch, head), h.packed(), first, h.sequence, h.dim);
  g.load(dout + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim, h.heads * h.dim, first, h.sequence,
         h.dim);
  const std::int64_t statistic = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query;
  const R log_sum = query < h.sequence ? log_sum_exp[statistic] : 0.0F;
  const R row_delta = query < h.sequence ? static_cast<R>(delta[statistic]) : R{0};

  R acc[J] = {};
  for (int key0 = h.begin(batch, first) / tile * tile; key0 <= first; key0 += tile) {
    __syncthreads();
    k.load(packed_head(qkv, h, batch, h.heads + kv), h.packed(), key0, h.sequence, h.dim);
    v.load(packed_head(qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), key0, h.sequence, h.dim);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j, key = key0 + c;
      R value = 0;
      if (begin <= key && key <= query && query < h.sequence) {
        const R weight = exp(static_cast<R>(h.scale) * dot<R>(q.row(r), k.row(c), h.dim) - log_sum);
        const R factor = h.factor(batch, head, query, key);
        value = weight * (factor * dot<R>(g.row(r), v.row(c), h.dim) - row_delta);
      }
      dscore[r][c] = value;
    }
    __syncwarp();
    accumulate(acc, dscore[r], k, lane, h.dim);
  }
  if (query >= h.sequence) return;
  write(packed_head(dqkv, h, batch, head) + static_cast<std::int64_t>(query) * h.packed(), acc, static_cast<R>(h.scale), lane,
        h.dim);
}

// One block a tile of keys of one key-value head: adds over that head's query heads and later queries, in order.
template <class T, int J>
__global__ void __launch_bounds__(threads)
    dkv_kernel(Heads h, const T* __restrict__ dout, const T* __restrict__ qkv, const float* __restrict__ log_sum_exp,
               const double* __restrict__ delta, T* __restrict__ dqkv) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R weights[tile][tile + 1], dscore[tile][tile + 1];
  const int first = blockIdx.x * tile, kv = blockIdx.y, batch = blockIdx.z;
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, key = first + r;
  Rows k(memory, 0, h.dim), v(memory, 1, h.dim), q(memory, 2, h.dim), g(memory, 3, h.dim);
  k.load(packed_head(qkv, h, batch, h.heads + kv), h.packed(), first, h.sequence, h.dim);
  v.load(packed_head(qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), first, h.sequence, h.dim);

  R dk[J] = {}, dv[J] = {};
  for (int head = kv * h.group(); head < (kv + 1) * h.group(); ++head) {
    for (int query0 = first; query0 < h.sequence; query0 += tile) {
      if (h.begin(batch, query0) >= first + tile) break;  // from here on no query sees a key of this tile
      __syncthreads();
      q.load(packed_head(qkv, h, batch, head), h.packed(), query0, h.sequence, h.dim);
      g.load(dout + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim, h.heads * h.dim, query0,
             h.sequence, h.dim);
      __syncthreads();
      const std::int64_t statistics = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence;
#pragma unroll
      for (int j = 0; j < per_lane; ++j) {
        const int c = lane + lanes * j, query = query0 + c;
        R weight = 0, value = 0;
        if (key <= query && query < h.sequence && h.begin(batch, query) <= key) {
          const R factor = h.factor(batch, head, query, key);
          weight = exp(static_cast<R>(h.scale) * dot<R>(q.row(c), k.row(r), h.dim) -
                       static_cast<R>(log_sum_exp[statistics + query]));
          value = weight * (factor * dot<R>(g.row(c), v.row(r), h.dim) - static_cast<R>(delta[statistics + query]));
          weight *= factor;
        }
        weights[r][c] = weight;
        dscore[r][c] = value;
      }
      __syncwarp();
      accumulate(dv, weights[r], g, lane, h.dim);
      accumulate(dk, dscore[r], q, lane, h.dim);
    }
  }
  if (key >= h.sequence) return;
  const std::int64_t row = static_cast<std::int64_t>(key) * h.packed();
  write(packed_head(dqkv, h, batch, h.heads + kv) + row, dk, static_cast<R>(h.scale), lane, h.dim);
  write(packed_head(dqkv, h, batch, h.heads + h.kv_heads + kv) + row, dv, R{1}, lane, h.dim);
}

// Calls body(Constant<J>) for the elements of a head that one of its threads holds.
template <class Body>
void with_head_size(const AttentionShape& shape, Body body) {
  if (shape.head_dim <= 32) return body(Constant<4>{});
  if (shape.head_dim <= 64) return body(Constant<8>{});
  if (shape.head_dim <= 128) return body(Constant<16>{});
  if (shape.head_dim <= 256) return body(Constant<32>{});
  throw Error(ErrorKind::unavailable, "attention on GPUs: head size " + std::to_string(shape.head_dim) + " is above 256");
}

struct Grid {
  std::int64_t heads;
  int tiles_held;  // in shared memory
};

template <class Kernel, class... Arguments>
void launch(Kernel kernel, const Grid& of, const AttentionShape& shape, cudaStream_t stream, Arguments... arguments) {
  const auto bytes = static_cast<int>(static_cast<std::size_t>(of.tiles_held * tile * (shape.head_dim + 1)) * sizeof(float));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const dim3 grid(blocks_for(shape.sequence, tile), static_cast<unsigned>(of.heads), static_cast<unsigned>(shape.batch));
  kernel<<<grid, threads, static_cast<std::size_t>(bytes), stream>>>(arguments...);
}

template <class T>
void backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args, double* delta) {
  const std::int64_t rows = shape.tokens() * shape.heads;
  const Heads heads = heads_of(shape, args);
  delta_kernel<<<blocks_for(rows, 8), 256, 0, stream>>>(heads, rows, data_of<T>(args.dout), data_of<T>(args.out), delta);
  with_head_size(shape, [&](auto j) {
    constexpr int J = decltype(j)::value;
    const auto* log_sum_exp = data_of<float>(args.log_sum_exp);
    launch(dq_kernel<T, J>, {shape.heads, 4}, shape, stream, heads, data_of<T>(args.dout), data_of<T>(args.qkv), log_sum_exp,
           delta, data_of<T>(args.dqkv));
    launch(dkv_kernel<T, J>, {shape.kv_heads, 4}, shape, stream, heads, data_of<T>(args.dout), data_of<T>(args.qkv),
           log_sum_exp, delta, data_of<T>(args.dqkv));
  });
}

}  // namespace

void attention(cudaStream_t stream, const AttentionShape& shape, const AttentionArgs& args) {
  if (shape.tokens() == 0) return;
  with_type(args.qkv.dtype, "attention", [&](auto t) {
    using T = typename decltype(t)::type;
    with_head_size(shape, [&](auto j) {
      launch(forward_kernel<T, decltype(j)::value>, {shape.heads, 3}, shape, stream, heads_of(shape, args),
             data_of<T>(args.qkv), data_of<T>(args.out), data_of<float>(args.log_sum_exp));
    });
  });
}

std::size_t attention_backward_scratch(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.tokens() * shape.heads) * sizeof(double);
}

void attention_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args, void* scratch) {
  if (shape.tokens() == 0) return;
  with_type(args.qkv.dtype, "attention_backward",
            [&](auto t) { backward<typename decltype(t)::type>(stream, shape, args, static_cast<double*>(scratch)); });
}

}  // namespace pipetrain::cuda
