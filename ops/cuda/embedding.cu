#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

// One block handles a token; ids whose row another rank has give zeros.
template <class TT, class T, int W>
__global__ void embedding_kernel(const int* ids, const TT* table, std::int64_t first_id, std::int64_t vocabulary, T* out,
                                 int cols) {
  constexpr int unroll = 4;  // packs in flight together
  wait_for_previous();
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = ids[token] - first_id;
  const bool here = row >= 0 && row < vocabulary;
  for (int first = threadIdx.x; first < cols / W; first += unroll * blockDim.x) {
    Pack<TT, W> in[unroll] = {};
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const int pack = first + n * blockDim.x;
      if (here && pack < cols / W) in[n] = load<W>(table + row * cols, pack);
    }
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const int pack = first + n * blockDim.x;
      if (pack >= cols / W) break;
      float values[W];
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = in[n][i];
      store(out + token * cols, pack, values);
    }
  }
}

constexpr int sort_threads = 1024;

// Returns the sum of integers over the block, and the sum over the threads before this one.
struct BlockSum {
  int all = 0, before = 0;
};
__device__ BlockSum block_sum(int value) {
  __shared__ int warps[sort_threads / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int upto = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int more = __shfl_up_sync(0xffffffffU, upto, step);
    if (lane >= step) upto += more;
  }
  __syncthreads();  // an earlier call may still read
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  const int other = warps[lane];
  return {__reduce_add_sync(0xffffffffU, other), __reduce_add_sync(0xffffffffU, lane < warp ? other : 0) + upto - value};
}

// Sorts tokens so that equal ids are adjacent, in token order: order[place] = token, ids_in_order[place] = its
// id. The order of the ids depends on the ids and the number of blocks. A block takes the ids that hash to it:
// it lists their tokens in order after those of the blocks before it, then counts for each token the tokens
// that precede it in the list.
__global__ void __launch_bounds__(sort_threads)
    sort_tokens_kernel(const int* ids, int tokens, int* list, int* order, int* ids_in_order) {
  __shared__ int keys[sort_threads];
  wait_for_previous();
  const auto block_of = [](int id) { return __umulhi(static_cast<unsigned>(id) * 2654435761U, gridDim.x); };
  // Each warp takes adjacent tokens, 32 at a time.
  const int each = (tokens + sort_threads - 1) / sort_threads * 32, lane = threadIdx.x % 32;
  const int begin = threadIdx.x / 32 * each, end = begin + each < tokens ? begin + each : tokens;
  int mine = 0, earlier = 0;
#pragma unroll 8
  for (int token = begin + lane; token < end; token += 32) {
    const unsigned block = block_of(ids[token]);
    mine += block == blockIdx.x;
    earlier += block < blockIdx.x;
  }
  const int offset = block_sum(earlier).all;
  const BlockSum own = block_sum(mine);
  list += offset;
  int place = __shfl_sync(0xffffffffU, own.before, 0);  // the place of the warp's first token

  constexpr int batch = 8;  // loads in flight together
  for (int first = begin; first < end; first += 32 * batch) {
    unsigned block[batch];
#pragma unroll
    for (int n = 0; n < batch; ++n) {
      const int token = first + 32 * n + lane;
      block[n] = token < end ? block_of(ids[token]) : gridDim.x;
    }
#pragma unroll
    for (int n = 0; n < batch; ++n) {
      const bool here = block[n] == blockIdx.x;
      const unsigned lanes = __ballot_sync(0xffffffffU, here);
      if (here) list[place + __popc(lanes & ((1U << lane) - 1))] = first + 32 * n + lane;
      place += __popc(lanes);
    }
  }
  __syncthreads();
  for (int first = 0; first < own.all; first += sort_threads) {
    const int at = first + threadIdx.x;
    const int token = at < own.all ? list[at] : 0, id = ids[token];
    int rank = 0;
    for (int other = 0; other < own.all; other += sort_threads) {
      __syncthreads();
      if (other + threadIdx.x < own.all) keys[threadIdx.x] = ids[list[other + threadIdx.x]];
      __syncthreads();
      const int count = at >= own.all ? 0 : own.all - other < sort_threads ? own.all - other : sort_threads;
#pragma unroll 8
      for (int k = 0; k < count; ++k) rank += keys[k] < id || (keys[k] == id && other + k < at);
    }
    if (at >= own.all) continue;
    order[offset + rank] = token;
    ids_in_order[offset + rank] = id;
  }
}

// The block of the first place of an id owns that row of the table (blockIdx.y: a slice of its columns) and
// adds its tokens in order, so no two blocks write the same element.
constexpr int grad_threads = 64;

template <class T, int W>
__global__ void embedding_grad_kernel(const int* ids_in_order, const int* order, int tokens, const T* dy, std::int64_t first_id,
                                      std::int64_t vocabulary, float* dtable, int cols) {
  constexpr int unroll = 2;  // tokens at once
  wait_for_previous();
  const int place = blockIdx.x, id = ids_in_order[place];
  const std::int64_t row = id - first_id;
  const int pack = blockIdx.y * blockDim.x + threadIdx.x;
  int token[unroll];
  bool same[unroll];
  const auto look = [&](int at) {
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const int clipped = at + u < tokens ? at + u : tokens - 1;
      token[u] = order[clipped];
      same[u] = at + u < tokens && ids_in_order[clipped] == id;
    }
  };
  look(place);
  if (row < 0 || row >= vocabulary || (place > 0 && ids_in_order[place - 1] == id) || pack >= cols / W) return;

  const auto old = load<W>(dtable + row * cols, pack);
  Real<T> sum[W] = {};
  for (int at = place; same[0];) {
    Pack<T, W> in[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (same[u]) in[u] = load<W>(dy + static_cast<std::int64_t>(token[u]) * cols, pack);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (!same[u]) continue;
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += in[u][i];
    }
    if (!same[unroll - 1]) break;
    look(at += unroll);
  }
#pragma unroll
  for (int i = 0; i < W; ++i) sum[i] += old[i];
  store(dtable + row * cols, pack, sum);
}

}  // namespace

void embedding(cudaStream_t stream, const EmbeddingArgs& args, const Tensor& out) {
  const Tensor &ids = args.ids, &table = args.table;
  if (out.elements() == 0) return;
  const bool aligned = aligned16(table.data) && aligned16(out.data);
  with_types(table.dtype, out.dtype, "embedding", [&](auto tt, auto t) {
    using TT = typename decltype(tt)::type;
    using T = typename decltype(t)::type;
    with_width<T>(aligned && out.cols() % full_width<T> == 0, [&](auto w) {
      launch(stream, embedding_kernel<TT, T, decltype(w)::value>, static_cast<unsigned>(out.rows()), 128, 0, data_of<int>(ids),
             data_of<TT>(table), args.first_id, table.rows(), data_of<T>(out), static_cast<int>(out.cols()));
    });
  });
}

std::size_t embedding_grad_scratch(std::int64_t tokens) { return static_cast<std::size_t>(3 * tokens) * sizeof(int); }

void embedding_grad(cudaStream_t stream, const EmbeddingGradArgs& args, int multiprocessors, void* scratch) {
  const Tensor &ids = args.ids, &dy = args.dy, &dtable = args.dtable;
  if (dy.elements() == 0) return;
  const int tokens = static_cast<int>(dy.rows()), cols = static_cast<int>(dy.cols());
  int *list = static_cast<int*>(scratch), *order = list + tokens, *ids_in_order = order + tokens;
  launch(stream, sort_tokens_kernel, multiprocessors, sort_threads, 0, data_of<int>(ids), tokens, list, order, ids_in_order);
  with_type(dy.dtype, "embedding_grad", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(dy.data) && aligned16(dtable.data) && cols % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const dim3 blocks(static_cast<unsigned>(tokens), blocks_for(cols / W, grad_threads));
      launch(stream, embedding_grad_kernel<T, W>, blocks, grad_threads, 0, ids_in_order, order, tokens, data_of<T>(dy),
             args.first_id, dtable.rows(), data_of<float>(dtable), cols);
    });
  });
}

}  // namespace pipetrain::cuda
