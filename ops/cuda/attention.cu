// Causal attention of fp32 tensors, summed in fp64 without tensor cores: exact, and the same bits every time. For checks and
// golden runs, whose first steps of Adam magnify rounding; bf16 and f16 go through cuDNN (attention_cudnn.cpp). Tiles of 32
// queries by 32 keys with a running softmax (Dao 2023).
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int tile = 32;  // queries and keys of a tile
constexpr int lanes = 8;  // threads that share a row of a tile
constexpr int threads = tile * lanes;
constexpr int per_lane = tile / lanes;

struct Heads {
  int sequence, heads, kv_heads, dim;
  double scale;

  __device__ int packed() const { return (heads + 2 * kv_heads) * dim; }
  __device__ int group() const { return heads / kv_heads; }
};

// A tile of rows of one head in shared memory, one float of padding a row; rows past the sequence are zero.
struct Rows {
  float* at;
  int stride;

  __device__ Rows(float* memory, int index, int dim) : at(memory + index * tile * (dim + 1)), stride(dim + 1) {}
  __device__ const float* row(int r) const { return at + r * stride; }
  __device__ void load(const float* head, std::int64_t row_stride, int first, int sequence, int dim) {
    for (int i = threadIdx.x; i < tile * dim; i += threads) {
      const int r = i / dim, d = i % dim;
      at[r * stride + d] = first + r < sequence ? head[(first + r) * row_stride + d] : 0.0F;
    }
  }
};

__device__ double dot(const float* a, const float* b, int dim) {
  double sum = 0;
  for (int d = 0; d < dim; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
  return sum;
}

__device__ double row_max(double value) {  // over the threads of a row
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value = fmax(value, __shfl_xor_sync(0xffffffffU, value, step));
  return value;
}

__device__ double row_sum(double value) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

// Where head `index` (query heads, then key heads, then value heads) of sequence `batch` begins in a packed matrix.
template <class T>
__device__ T* packed_head(T* packed, const Heads& h, int batch, int index) {
  return packed + static_cast<std::int64_t>(batch) * h.sequence * h.packed() + index * h.dim;
}

// acc += weights [tile] x rows, for the elements of this thread: d = lane + lanes * j.
template <int J>
__device__ void accumulate(double (&acc)[J], const double* weights, const Rows& rows, int lane, int dim) {
  for (int c = 0; c < tile; ++c) {
    const double weight = weights[c];
    const float* row = rows.row(c);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      if (lane + lanes * j < dim) acc[j] += weight * static_cast<double>(row[lane + lanes * j]);
    }
  }
}

template <int J>
__device__ void write(float* out, const double (&acc)[J], double factor, int lane, int dim) {
#pragma unroll
  for (int j = 0; j < J; ++j) {
    if (lane + lanes * j < dim) out[lane + lanes * j] = static_cast<float>(acc[j] * factor);
  }
}

template <int J>
__global__ void __launch_bounds__(threads)
    forward_kernel(Heads h, const float* __restrict__ qkv, float* __restrict__ out, float* __restrict__ log_sum_exp) {
  extern __shared__ float memory[];
  __shared__ double weights[tile][tile + 1];
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  Rows q(memory, 0, h.dim), k(memory, 1, h.dim), v(memory, 2, h.dim);
  q.load(packed_head(qkv, h, batch, head), h.packed(), first, h.sequence, h.dim);

  double acc[J] = {}, largest = -INFINITY, total = 0;
  for (int key0 = 0; key0 <= first; key0 += tile) {
    __syncthreads();
    k.load(packed_head(qkv, h, batch, h.heads + kv), h.packed(), key0, h.sequence, h.dim);
    v.load(packed_head(qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), key0, h.sequence, h.dim);
    __syncthreads();
    double score[per_lane], top = largest;
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j;
      score[j] = key0 + c <= query ? h.scale * dot(q.row(r), k.row(c), h.dim) : -INFINITY;
      top = fmax(top, score[j]);
    }
    top = row_max(top);  // finite: key 0 of the first tile counts for every query
    const double shrink = exp(largest - top);
    double sum = 0;
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const double weight = exp(score[j] - top);
      weights[r][lane + lanes * j] = weight;
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
  write(out + (token * h.heads + head) * h.dim, acc, 1.0 / total, lane, h.dim);
  if (lane == 0)
    log_sum_exp[(static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query] =
        static_cast<float>(largest + log(total));
}

// delta [batch, heads, sequence] = sum over the head of dout * out. One warp a token and head.
__global__ void delta_kernel(Heads h, std::int64_t rows, const float* __restrict__ dout, const float* __restrict__ out,
                             double* __restrict__ delta) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  double sum = 0;
  for (int d = threadIdx.x % 32; d < h.dim; d += 32) {
    sum += static_cast<double>(dout[row * h.dim + d]) * static_cast<double>(out[row * h.dim + d]);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  const std::int64_t token = row / h.heads, head = row % h.heads;
  const std::int64_t batch = token / h.sequence, position = token % h.sequence;
  if (threadIdx.x % 32 == 0) delta[(batch * h.heads + head) * h.sequence + position] = sum;
}

template <int J>
__global__ void __launch_bounds__(threads)
    dq_kernel(Heads h, const float* __restrict__ dout, const float* __restrict__ qkv, const float* __restrict__ log_sum_exp,
              const double* __restrict__ delta, float* __restrict__ dqkv) {
  extern __shared__ float memory[];
  __shared__ double dscore[tile][tile + 1];
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  Rows q(memory, 0, h.dim), g(memory, 1, h.dim), k(memory, 2, h.dim), v(memory, 3, h.dim);
  q.load(packed_head(qkv, h, batch, head), h.packed(), first, h.sequence, h.dim);
  g.load(dout + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim, h.heads * h.dim, first, h.sequence,
         h.dim);
  const std::int64_t statistic = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query;
  const double log_sum = query < h.sequence ? log_sum_exp[statistic] : 0.0;
  const double row_delta = query < h.sequence ? delta[statistic] : 0.0;

  double acc[J] = {};
  for (int key0 = 0; key0 <= first; key0 += tile) {
    __syncthreads();
    k.load(packed_head(qkv, h, batch, h.heads + kv), h.packed(), key0, h.sequence, h.dim);
    v.load(packed_head(qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), key0, h.sequence, h.dim);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j;
      double value = 0;
      if (key0 + c <= query && query < h.sequence) {
        const double weight = exp(h.scale * dot(q.row(r), k.row(c), h.dim) - log_sum);
        value = weight * (dot(g.row(r), v.row(c), h.dim) - row_delta);
      }
      dscore[r][c] = value;
    }
    __syncwarp();
    accumulate(acc, dscore[r], k, lane, h.dim);
  }
  if (query >= h.sequence) return;
  write(packed_head(dqkv, h, batch, head) + static_cast<std::int64_t>(query) * h.packed(), acc, h.scale, lane, h.dim);
}

// One block a tile of keys of one key-value head: adds over that head's query heads and later queries, in order.
template <int J>
__global__ void __launch_bounds__(threads)
    dkv_kernel(Heads h, const float* __restrict__ dout, const float* __restrict__ qkv, const float* __restrict__ log_sum_exp,
               const double* __restrict__ delta, float* __restrict__ dqkv) {
  extern __shared__ float memory[];
  __shared__ double weights[tile][tile + 1], dscore[tile][tile + 1];
  const int first = blockIdx.x * tile, kv = blockIdx.y, batch = blockIdx.z;
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, key = first + r;
  Rows k(memory, 0, h.dim), v(memory, 1, h.dim), q(memory, 2, h.dim), g(memory, 3, h.dim);
  k.load(packed_head(qkv, h, batch, h.heads + kv), h.packed(), first, h.sequence, h.dim);
  v.load(packed_head(qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), first, h.sequence, h.dim);

  double dk[J] = {}, dv[J] = {};
  for (int head = kv * h.group(); head < (kv + 1) * h.group(); ++head) {
    for (int query0 = first; query0 < h.sequence; query0 += tile) {
      __syncthreads();
      q.load(packed_head(qkv, h, batch, head), h.packed(), query0, h.sequence, h.dim);
      g.load(dout + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim, h.heads * h.dim, query0,
             h.sequence, h.dim);
      __syncthreads();
      const std::int64_t statistics = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence;
#pragma unroll
      for (int j = 0; j < per_lane; ++j) {
        const int c = lane + lanes * j, query = query0 + c;
        double weight = 0, value = 0;
        if (key <= query && query < h.sequence) {
          weight = exp(h.scale * dot(q.row(c), k.row(r), h.dim) - static_cast<double>(log_sum_exp[statistics + query]));
          value = weight * (dot(g.row(c), v.row(r), h.dim) - delta[statistics + query]);
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
  write(packed_head(dqkv, h, batch, h.heads + kv) + row, dk, h.scale, lane, h.dim);
  write(packed_head(dqkv, h, batch, h.heads + h.kv_heads + kv) + row, dv, 1.0, lane, h.dim);
}

Heads heads_of(const AttentionShape& s) {
  return {static_cast<int>(s.sequence), static_cast<int>(s.heads), static_cast<int>(s.kv_heads), static_cast<int>(s.head_dim),
          1.0 / sqrt(static_cast<double>(s.head_dim))};
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

template <class Kernel, class... Arguments>
void launch(Kernel kernel, std::int64_t heads, int tiles_held, const AttentionShape& shape, cudaStream_t stream,
            Arguments... arguments) {
  const auto bytes = static_cast<int>(static_cast<std::size_t>(tiles_held * tile * (shape.head_dim + 1)) * sizeof(float));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const dim3 grid(blocks_for(shape.sequence, tile), static_cast<unsigned>(heads), static_cast<unsigned>(shape.batch));
  kernel<<<grid, threads, static_cast<std::size_t>(bytes), stream>>>(heads_of(shape), arguments...);
}

}  // namespace

void attention(cudaStream_t stream, const AttentionShape& shape, const AttentionArgs& args) {
  if (shape.tokens() == 0) return;
  with_head_size(shape, [&](auto j) {
    launch(forward_kernel<decltype(j)::value>, shape.heads, 3, shape, stream, data_of<float>(args.qkv),
           data_of<float>(args.out), data_of<float>(args.log_sum_exp));
  });
}

std::size_t attention_backward_scratch(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.tokens() * shape.heads) * sizeof(double);
}

void attention_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args, void* scratch) {
  if (shape.tokens() == 0) return;
  auto* delta = static_cast<double*>(scratch);
  const std::int64_t rows = shape.tokens() * shape.heads;
  delta_kernel<<<blocks_for(rows, 8), 256, 0, stream>>>(heads_of(shape), rows, data_of<float>(args.dout),
                                                        data_of<float>(args.out), delta);
  with_head_size(shape, [&](auto j) {
    constexpr int J = decltype(j)::value;
    launch(dq_kernel<J>, shape.heads, 4, shape, stream, data_of<float>(args.dout), data_of<float>(args.qkv),
           data_of<float>(args.log_sum_exp), delta, data_of<float>(args.dqkv));
    launch(dkv_kernel<J>, shape.kv_heads, 4, shape, stream, data_of<float>(args.dout), data_of<float>(args.qkv),
           data_of<float>(args.log_sum_exp), delta, data_of<float>(args.dqkv));
  });
}

}  // namespace pipetrain::cuda
