// Causal attention without tensor cores, the same bits every time. Of fp32 tensors, summed in fp64: exact, for checks and
// golden runs, whose first steps of Adam magnify rounding. Of f16 tensors, and bf16 ones whose heads are too large for
// attention_mma.cu, summed in fp32, where something is dropped or documents share a sequence; else these go through cuDNN
// (attention_cudnn.cpp). Tiles of 32 queries by 32 keys with a running softmax (Dao 2023). Queries and keys are stretches of a
// sequence, a whole one's the same twice.
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

// A tile of rows of one head in shared memory, one float of padding a row; rows from `end` on are zero.
struct Rows {
  float* at;
  int stride;

  __device__ Rows(float* memory, int index, int dim) : at(memory + index * tile * (dim + 1)), stride(dim + 1) {}
  __device__ const float* row(int r) const { return at + r * stride; }
  template <class T>
  __device__ void load(const T* head, std::int64_t row_stride, int first, int end, int dim) {
    for (int i = threadIdx.x; i < tile * dim; i += threads) {
      const int r = i / dim, d = i % dim;
      at[r * stride + d] = first + r < end ? to_float(head[(first + r) * row_stride + d]) : 0.0F;
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
__device__ void write(T* out, const R (&acc)[J], R factor, int lane, int dim, bool adds = false) {
#pragma unroll
  for (int j = 0; j < J; ++j) {
    if (lane + lanes * j >= dim) continue;
    T& to = out[lane + lanes * j];
    R value = acc[j] * factor;
    if (adds) value += static_cast<R>(to_float(to));
    to = from_float<T>(static_cast<float>(value));
  }
}

// O: of the output
template <class T, class O, int J>
__global__ void __launch_bounds__(threads) forward_kernel(Segment<T> s, O* __restrict__ out, float* __restrict__ log_sum_exp) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R weights[tile][tile + 1];
  const Heads& h = s.heads;
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  const int begin = s.begin(batch, query);
  Rows q(memory, 0, h.dim), k(memory, 1, h.dim), v(memory, 2, h.dim);
  q.load(s.query_head(batch, head), s.q_cols, first, h.sequence, h.dim);

  R acc[J] = {}, largest = -INFINITY, total = 0;
  for (int key0 = s.begin(batch, first) / tile * tile; key0 < s.keys && key0 < first + tile + s.ahead(); key0 += tile) {
    __syncthreads();
    k.load(s.key_head(batch, kv), s.kv_cols, key0, s.keys, h.dim);
    v.load(s.key_head(batch, h.kv_heads + kv), s.kv_cols, key0, s.keys, h.dim);
    __syncthreads();
    R score[per_lane], top = largest;
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j;
      score[j] = s.sees(begin, query, key0 + c) ? static_cast<R>(h.scale) * dot<R>(q.row(r), k.row(c), h.dim) : -INFINITY;
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
      weights[r][lane + lanes * j] = weight * s.factor(batch, head, query, key0 + lane + lanes * j);
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
  write(out + (token * h.heads + head) * h.dim, acc, total > 0 ? R{1} / total : R{0}, lane, h.dim);
  if (lane == 0)
    log_sum_exp[(static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query] =
        static_cast<float>(largest + log(total));
}

// delta [batch, heads, sequence] = sum over the head of dout * out. One warp a token and head.
template <class T, class O>
__global__ void delta_kernel(Heads h, std::int64_t rows, const T* __restrict__ dout, const O* __restrict__ out,
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

// What the queries gave and got.
template <class T>
struct Outputs {
  const T* dout;
  const float* log_sum_exp;
  const double* delta;

  __device__ const T* head(const Heads& h, int batch, int head) const {
    return dout + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim;
  }
};

// G: of the gradient
template <class T, class G, int J>
__global__ void __launch_bounds__(threads) dq_kernel(Segment<T> s, Outputs<T> of, Gradient<G> dq) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R dscore[tile][tile + 1];
  const Heads& h = s.heads;
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  const int begin = s.begin(batch, query);
  Rows q(memory, 0, h.dim), g(memory, 1, h.dim), k(memory, 2, h.dim), v(memory, 3, h.dim);
  q.load(s.query_head(batch, head), s.q_cols, first, h.sequence, h.dim);
  g.load(of.head(h, batch, head), h.heads * h.dim, first, h.sequence, h.dim);
  const std::int64_t statistic = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query;
  const R log_sum = query < h.sequence ? of.log_sum_exp[statistic] : 0.0F;
  const R row_delta = query < h.sequence ? static_cast<R>(of.delta[statistic]) : R{0};

  R acc[J] = {};
  for (int key0 = s.begin(batch, first) / tile * tile; key0 < s.keys && key0 < first + tile + s.ahead(); key0 += tile) {
    __syncthreads();
    k.load(s.key_head(batch, kv), s.kv_cols, key0, s.keys, h.dim);
    v.load(s.key_head(batch, h.kv_heads + kv), s.kv_cols, key0, s.keys, h.dim);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j, key = key0 + c;
      R value = 0;
      if (query < h.sequence && s.sees(begin, query, key)) {
        const R weight = exp(static_cast<R>(h.scale) * dot<R>(q.row(r), k.row(c), h.dim) - log_sum);
        const R factor = s.factor(batch, head, query, key);
        value = weight * (factor * dot<R>(g.row(r), v.row(c), h.dim) - row_delta);
      }
      dscore[r][c] = value;
    }
    __syncwarp();
    accumulate(acc, dscore[r], k, lane, h.dim);
  }
  if (query < h.sequence) write(dq.at(batch, head * h.dim, query), acc, static_cast<R>(h.scale), lane, h.dim, dq.adds);
}

// One block a tile of keys of one key-value head: adds over that head's query heads and later queries, in order. G: of the
// gradient.
template <class T, class G, int J>
__global__ void __launch_bounds__(threads) dkv_kernel(Segment<T> s, Outputs<T> of, Gradient<G> dkv) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R weights[tile][tile + 1], dscore[tile][tile + 1];
  const Heads& h = s.heads;
  const int first = blockIdx.x * tile, kv = blockIdx.y, batch = blockIdx.z;
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, key = first + r;
  Rows k(memory, 0, h.dim), v(memory, 1, h.dim), q(memory, 2, h.dim), g(memory, 3, h.dim);
  k.load(s.key_head(batch, kv), s.kv_cols, first, s.keys, h.dim);
  v.load(s.key_head(batch, h.kv_heads + kv), s.kv_cols, first, s.keys, h.dim);

  R dk[J] = {}, dv[J] = {};
  for (int head = kv * h.group(); head < (kv + 1) * h.group(); ++head) {
    for (int query0 = max(0, first - s.ahead()) / tile * tile; query0 < h.sequence; query0 += tile) {
      if (s.begin(batch, query0) >= first + tile) break;  // from here on no query sees a key of this tile
      __syncthreads();
      q.load(s.query_head(batch, head), s.q_cols, query0, h.sequence, h.dim);
      g.load(of.head(h, batch, head), h.heads * h.dim, query0, h.sequence, h.dim);
      __syncthreads();
      const std::int64_t statistics = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence;
#pragma unroll
      for (int j = 0; j < per_lane; ++j) {
        const int c = lane + lanes * j, query = query0 + c;
        R weight = 0, value = 0;
        if (query < h.sequence && s.sees(s.begin(batch, query), query, key)) {
          const R factor = s.factor(batch, head, query, key);
          weight = exp(static_cast<R>(h.scale) * dot<R>(q.row(c), k.row(r), h.dim) -
                       static_cast<R>(of.log_sum_exp[statistics + query]));
          value = weight * (factor * dot<R>(g.row(c), v.row(r), h.dim) - static_cast<R>(of.delta[statistics + query]));
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
  if (key >= s.keys) return;
  write(dkv.at(batch, kv * h.dim, key), dk, static_cast<R>(h.scale), lane, h.dim, dkv.adds);
  write(dkv.at(batch, (h.kv_heads + kv) * h.dim, key), dv, R{1}, lane, h.dim, dkv.adds);
}

// Calls body(Constant<J>) for the elements of a head that one of its threads holds.
template <class Body>
void with_head_size(std::int64_t head_dim, Body body) {
  if (head_dim <= 32) return body(Constant<4>{});
  if (head_dim <= 64) return body(Constant<8>{});
  if (head_dim <= 128) return body(Constant<16>{});
  if (head_dim <= 256) return body(Constant<32>{});
  throw Error(ErrorKind::unavailable, "attention on GPUs: head size " + std::to_string(head_dim) + " is above 256");
}

// What a kernel's blocks stand for.
struct Grid {
  std::int64_t rows, heads, batch;
  std::int64_t tiles_held, head_dim;  // in shared memory
};

template <class Kernel, class... Arguments>
void launch(Kernel kernel, const Grid& of, cudaStream_t stream, Arguments... arguments) {
  const auto bytes = static_cast<int>(static_cast<std::size_t>(of.tiles_held * tile * (of.head_dim + 1)) * sizeof(float));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const dim3 grid(blocks_for(of.rows, tile), static_cast<unsigned>(of.heads), static_cast<unsigned>(of.batch));
  kernel<<<grid, threads, static_cast<std::size_t>(bytes), stream>>>(arguments...);
}

template <class T>
void forward(cudaStream_t stream, const SegmentShape& shape, const SegmentAttentionArgs& args) {
  with_type(args.out.dtype, "attention's output", [&](auto o) {
    using O = typename decltype(o)::type;
    if constexpr (std::is_same_v<O, T> || std::is_same_v<O, float>) {
      with_head_size(shape.head_dim, [&](auto j) {
        launch(forward_kernel<T, O, decltype(j)::value>, {shape.queries, shape.heads, shape.batch, 3, shape.head_dim}, stream,
               segment_of<T>(shape, args), data_of<O>(args.out), data_of<float>(args.log_sum_exp));
      });
    } else {
      throw Error(ErrorKind::internal, std::string("attention: no output in ") + to_string(args.out.dtype));
    }
  });
}

// Q, K: of the gradients of queries and of keys and values, where these begin
template <class T, class Q, class K>
void backward(cudaStream_t stream, const SegmentShape& shape, const SegmentAttentionBackwardArgs& args, K* dkv, bool adds,
              double* delta) {
  const auto segment = segment_of<T>(shape, args);
  const std::int64_t rows = shape.batch * shape.queries * shape.heads;
  with_type(args.out.dtype, "attention's output", [&](auto o) {
    delta_kernel<<<blocks_for(rows, 8), 256, 0, stream>>>(segment.heads, rows, data_of<T>(args.dout),
                                                          data_of<typename decltype(o)::type>(args.out), delta);
  });
  const Outputs<T> of{data_of<T>(args.dout), data_of<float>(args.log_sum_exp), delta};
  const Gradient<Q> dq{data_of<Q>(args.dq), shape.queries, args.dq.cols(), args.accumulate_dq == Accumulate::yes};
  const Gradient<K> dk{dkv, args.dkv.rows() / shape.batch, args.dkv.cols(), adds};
  with_head_size(shape.head_dim, [&](auto j) {
    constexpr int J = decltype(j)::value;
    launch(dq_kernel<T, Q, J>, {shape.queries, shape.heads, shape.batch, 4, shape.head_dim}, stream, segment, of, dq);
    launch(dkv_kernel<T, K, J>, {shape.keys, shape.kv_heads, shape.batch, 4, shape.head_dim}, stream, segment, of, dk);
  });
}

}  // namespace

void segment_attention(cudaStream_t stream, const SegmentShape& shape, const SegmentAttentionArgs& args) {
  if (shape.batch * shape.queries == 0) return;
  with_type(args.q.dtype, "attention", [&](auto t) { forward<typename decltype(t)::type>(stream, shape, args); });
}

void attention(cudaStream_t stream, const AttentionShape& shape, const AttentionArgs& args) {
  segment_attention(stream, whole_sequence(shape),
                    {args.qkv, args.qkv, args.out, args.log_sum_exp, args.documents, args.dropout});
}

std::size_t segment_attention_backward_scratch(const SegmentShape& shape) {
  return static_cast<std::size_t>(shape.batch * shape.queries * shape.heads) * sizeof(double);
}
std::size_t attention_backward_scratch(const AttentionShape& shape) {
  return segment_attention_backward_scratch(whole_sequence(shape));
}

void segment_attention_backward(cudaStream_t stream, const SegmentShape& shape, const SegmentAttentionBackwardArgs& args,
                                void* scratch) {
  if (shape.batch * shape.queries == 0) return;
  auto* const delta = static_cast<double*>(scratch);
  with_type(args.q.dtype, "attention_backward", [&](auto t) {
    using T = typename decltype(t)::type;
    auto* const dkv = data_of<float>(args.dkv);
    if (args.dq.dtype == DType::f32) return backward<T, float>(stream, shape, args, dkv, true, delta);
    backward<T, T>(stream, shape, args, dkv, true, delta);
  });
}

void attention_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args, void* scratch) {
  if (shape.tokens() == 0) return;
  const SegmentAttentionBackwardArgs segment{.dout = args.dout,
                                             .q = args.qkv,
                                             .kv = args.qkv,
                                             .out = args.out,
                                             .log_sum_exp = args.log_sum_exp,
                                             .dq = args.dqkv,
                                             .dkv = args.dqkv,
                                             .documents = args.documents,
                                             .dropout = args.dropout};
  with_type(args.qkv.dtype, "attention_backward", [&](auto t) {
    using T = typename decltype(t)::type;
    T* const dkv = data_of<T>(args.dqkv) + shape.heads * shape.head_dim;
    backward<T, T>(stream, whole_sequence(shape), segment, dkv, false, static_cast<double*>(scratch));
  });
}

}  // namespace pipetrain::cuda
