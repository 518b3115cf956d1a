#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.hpp"
#include "model/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

// One block a token; zeros for ids whose row another rank has.
template <class TT, class T, int W>
__global__ void embedding_kernel(const int* __restrict__ ids, const TT* __restrict__ table, std::int64_t first_id,
                                 std::int64_t vocabulary, T* __restrict__ out, int cols) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = ids[token] - first_id;
  const bool here = row >= 0 && row < vocabulary;
  for (int pack = threadIdx.x; pack < cols / W; pack += blockDim.x) {
    float values[W] = {};
    if (here) {
      const auto in = load<W>(table + row * cols, pack);
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = in[i];
    }
    store(out + token * cols, pack, values);
  }
}

// order[p] = the token at place p when tokens are sorted by id, equal ids in token order: each warp counts what comes before
// its token. Quadratic in the tokens, yet a few microseconds at 4096, with nothing to allocate.
__global__ void sort_tokens_kernel(const int* __restrict__ ids, int tokens, int* __restrict__ order) {
  const int token = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32), lane = threadIdx.x % 32;
  if (token >= tokens) return;
  const int id = ids[token];
  int before = 0;
#pragma unroll 4
  for (int other = lane; other < tokens; other += 32) {
    const int other_id = ids[other];
    before += other_id < id || (other_id == id && other < token);
  }
  before = __reduce_add_sync(0xffffffffU, before);
  if (lane == 0) order[before] = token;
}

// The block of the first place of an id owns that row of the table (blockIdx.y: a slice of its columns) and adds its tokens in
// order, so no two blocks write the same element.
template <class T, int W>
__global__ void embedding_grad_kernel(const int* __restrict__ ids, const int* __restrict__ order, int tokens,
                                      const T* __restrict__ dy, std::int64_t first_id, std::int64_t vocabulary,
                                      float* __restrict__ dtable, int cols) {
  constexpr int unroll = 4;
  const int place = blockIdx.x;
  const int id = ids[order[place]];
  const std::int64_t row = id - first_id;
  const int pack = blockIdx.y * blockDim.x + threadIdx.x;
  if (row < 0 || row >= vocabulary || pack >= cols / W) return;
  if (place > 0 && ids[order[place - 1]] == id) return;

  float sum[W];
  const auto old = load<W>(dtable + row * cols, pack);
#pragma unroll
  for (int i = 0; i < W; ++i) sum[i] = old[i];
  for (int at = place; at < tokens; at += unroll) {
    Pack<T, W> in[unroll];
    bool same[unroll];
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const int token = at + n < tokens ? order[at + n] : 0;
      same[n] = at + n < tokens && ids[token] == id;
      if (same[n]) in[n] = load<W>(dy + static_cast<std::int64_t>(token) * cols, pack);
    }
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      if (!same[n]) continue;
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += in[n][i];
    }
    if (!same[unroll - 1]) break;
  }
  store(dtable + row * cols, pack, sum);
}

}  // namespace

void embedding(cudaStream_t stream, const Tensor& ids, const Tensor& table, std::int64_t first_id, const Tensor& out) {
  if (out.elements() == 0) return;
  const bool aligned = aligned16(table.data) && aligned16(out.data);
  with_type(table.dtype, "embedding's table", [&](auto tt) {
    with_type(out.dtype, "embedding", [&](auto t) {
      using TT = typename decltype(tt)::type;
      using T = typename decltype(t)::type;
      with_width<T>(aligned && out.cols() % full_width<T> == 0, [&](auto w) {
        embedding_kernel<TT, T, decltype(w)::value><<<static_cast<unsigned>(out.rows()), 256, 0, stream>>>(
            data_of<int>(ids), data_of<TT>(table), first_id, table.rows(), data_of<T>(out), static_cast<int>(out.cols()));
      });
    });
  });
}

std::size_t embedding_grad_scratch(std::int64_t tokens) { return static_cast<std::size_t>(tokens) * sizeof(int); }

void embedding_grad(cudaStream_t stream, const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable,
                    void* scratch) {
  if (dy.elements() == 0) return;
  const int tokens = static_cast<int>(dy.rows()), cols = static_cast<int>(dy.cols());
  auto* order = static_cast<int*>(scratch);
  sort_tokens_kernel<<<blocks_for(tokens, 4), 128, 0, stream>>>(data_of<int>(ids), tokens, order);
  with_type(dy.dtype, "embedding_grad", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(dy.data) && aligned16(dtable.data) && cols % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const dim3 grid(static_cast<unsigned>(tokens), blocks_for(cols / W, 128));
      embedding_grad_kernel<T, W><<<grid, 128, 0, stream>>>(data_of<int>(ids), order, tokens, data_of<T>(dy), first_id,
                                                            dtable.rows(), data_of<float>(dtable), cols);
    });
  });
}

}  // namespace pipetrain::cuda
