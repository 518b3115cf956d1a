#include "ops/cuda/hopper/cross_entropy_rows.hpp"

#include <algorithm>
#include <type_traits>

#include "ops/cuda/hopper/bulk_copy.cuh"
#include "ops/cuda/hopper/cluster.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

using namespace hopper;

constexpr int threads = 256, warps = threads / 32, width = 8;  // logits in 16 bytes, which are a pack
constexpr int unroll = 4;                                      // packs of a thread in flight together
constexpr int chunk_packs = threads * unroll, pack_bytes = 16;
constexpr int most_chunks = 4;    // of a block's part of a row: 64 KiB, so that a multiprocessor has three blocks
constexpr int most_blocks = 8;    // of a cluster
constexpr int together = 3;       // blocks of a multiprocessor: while some wait for their cluster, others compute
constexpr float lowest = -1e30F;  // as in cross_entropy.cu

template <class T>
struct Rows {
  T* logits;
  int rows, stride;  // elements
  const int* targets;
  std::int64_t first_id;
  int cols;  // that count
  LossSums found;
  float scale;
};

struct Sum {
  float top, total;                                                                                       // of exp(logit - top)
  __device__ float log_sum() const { return static_cast<float>(top + log(static_cast<double>(total))); }  // as loss_kernel()
};

// Clusters take rows in turns. Each block of one has a run of the row's packs, in chunks that arrive one after the other; the
// next row's take their places as they are done with.
template <class T, bool differentiates>
class RowBlock {
 public:
  using Logits = Pack<T, width>;
  using Pair = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat162, __half2>;

  struct Shared {
    alignas(8) Barrier full[most_chunks];
    Sum of_warps[warps];
    float2 of_blocks[2][most_blocks];  // of this turn and of the next
    float log_sum;
  };

  __device__ RowBlock(const Rows<T>& all, Shared& shared, Logits* packs)
      : all_(all), shared_(shared), packs_(packs), rank_(cluster_rank()), blocks_(cluster_size()) {
    const int of_row = all.stride / width, each = (of_row + blocks_ - 1) / blocks_;
    first_ = rank_ * each;
    count_ = max(0, min(each, of_row - first_));
    chunks_ = (count_ + chunk_packs - 1) / chunk_packs;
  }

  __device__ __forceinline__ void run() {
    const int step = static_cast<int>(gridDim.x) / blocks_;
    int row = static_cast<int>(blockIdx.x) / blocks_;
    for (int chunk = 0; chunk < chunks_; ++chunk) fetch(row, chunk);
    meet_cluster();  // all blocks run
    for (int turn = 0; row < all_.rows; row += step, ++turn) {
      const int target = all_.targets[row];
      const std::int64_t col = target >= 0 ? target - all_.first_id : -1;
      const int target_col = col >= 0 && col < all_.cols ? static_cast<int>(col) : -1;
      const Sum own = sum_of_thread(turn);
      const int pack = target_col / width - first_;
      const bool holds_target = target_col >= 0 && pack >= 0 && pack < count_;
      float target_logit = 0;
      if (holds_target) target_logit = packs_[pack][target_col % width];
      give_sum(own, turn);
      if constexpr (!differentiates) {
        for (int chunk = 0; chunk < chunks_; ++chunk) fetch(row + step, chunk);  // all have read them: give_sum() has met them
      }
      meet_cluster();
      if (threadIdx.x < 32) {
        const Sum sum = sum_of_row(turn);
        if constexpr (differentiates) shared_.log_sum = sum.log_sum();
        if (threadIdx.x == 0) {
          if (rank_ == 0) all_.found.largest[row] = sum.top, all_.found.sum[row] = sum.total;
          if (holds_target || (rank_ == 0 && target_col < 0)) all_.found.target_logit[row] = target_logit;
        }
      }
      if constexpr (differentiates) {
        __syncthreads();
        differentiate({row, target_col, target >= 0}, row + step);
      }
    }
  }

 private:
  struct Row {
    int row, target_col;  // below 0: no column
    bool counts;
  };

  __device__ __forceinline__ void fetch(int row, int chunk) const {
    if (threadIdx.x != 0 || row >= all_.rows) return;
    const int from = chunk * chunk_packs, bytes = min(chunk_packs, count_ - from) * pack_bytes;
    const T* const in = all_.logits + static_cast<std::int64_t>(row) * all_.stride + (first_ + from) * width;
    arrive_expecting(shared_.full[chunk], bytes);
    load_bytes(packs_ + from, in, bytes, shared_.full[chunk]);
  }

  // Columns that do not count as minus infinity.
  __device__ __forceinline__ Logits take(int pack) const {
    Logits logits = packs_[pack];
    const int counted = all_.cols - (first_ + pack) * width;
    if (counted < width) {
#pragma unroll
      for (int i = 0; i < width; ++i)
        if (i >= counted) logits.at[i] = from_float<T>(-INFINITY);
    }
    return logits;
  }

  __device__ __forceinline__ static float difference_exponential(float logit, float top) { return exponential<T>(logit - top); }

  __device__ __forceinline__ static float largest_of(const Logits& logits) {
    const auto* const pairs = reinterpret_cast<const Pair*>(&logits);
    const Pair most = __hmax2(__hmax2(pairs[0], pairs[1]), __hmax2(pairs[2], pairs[3]));
    return max(to_float(most.x), to_float(most.y));
  }

  // What its packs give, chunk after chunk: the sum is brought to each larger top (Milakov and Gimelshein 2018).
  __device__ __forceinline__ Sum sum_of_thread(int turn) const {
    Sum sum{lowest, 0};
#pragma unroll 1
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      wait(shared_.full[chunk], turn % 2);
      const int first = chunk * chunk_packs + static_cast<int>(threadIdx.x);
      Logits in[unroll];
      const float before = sum.top;
#pragma unroll
      for (int n = 0; n < unroll; ++n) {
        if (first + n * threads >= count_) break;
        in[n] = take(first + n * threads);
        sum.top = max(sum.top, largest_of(in[n]));
      }
      // Products that a sum takes up are rounded by themselves: both kernels of this class are to have the same bits.
      sum.total = __fmul_rn(sum.total, difference_exponential(before, sum.top));
#pragma unroll
      for (int n = 0; n < unroll; ++n) {
        if (first + n * threads >= count_) break;
        forget(in[n]);
#pragma unroll
        for (int i = 0; i < width; ++i) sum.total += difference_exponential(in[n][i], sum.top);
      }
    }
    return sum;
  }

  __device__ __forceinline__ static Sum sum_of_warp(Sum sum) {
    float top = sum.top;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) top = max(top, __shfl_xor_sync(~0U, top, step));
    return {top, warp_sum(__fmul_rn(sum.total, difference_exponential(sum.top, top)))};
  }

  // To all blocks of the cluster.
  __device__ __forceinline__ void give_sum(Sum sum, int turn) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    sum = sum_of_warp(sum);
    if (lane == 0) shared_.of_warps[warp] = sum;
    __syncthreads();
    if (warp > 0) return;
    sum = sum_of_warp(lane < warps ? shared_.of_warps[lane] : Sum{lowest, 0});
    if (lane < blocks_) give(lane, shared_.of_blocks[turn % 2] + rank_, make_float2(sum.top, sum.total));
  }

  // The blocks' sums are added in their order.
  __device__ __forceinline__ Sum sum_of_row(int turn) const {
    const float2* const of_blocks = shared_.of_blocks[turn % 2];
    Sum row{lowest, 0};
    for (int block = 0; block < blocks_; ++block) row.top = max(row.top, of_blocks[block].x);
    for (int block = 0; block < blocks_; ++block)
      row.total += __fmul_rn(of_blocks[block].y, difference_exponential(of_blocks[block].x, row.top));
    return row;
  }

  // scale (softmax - one_hot), of the same numbers as backward_kernel() of cross_entropy.cu.
  __device__ __forceinline__ void differentiate(const Row& row, int next_row) const {
    const float log_sum = shared_.log_sum, scale = row.counts ? all_.scale : 0.0F;
    T* const to = all_.logits + static_cast<std::int64_t>(row.row) * all_.stride + first_ * width;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const int first = chunk * chunk_packs + static_cast<int>(threadIdx.x);
#pragma unroll
      for (int n = 0; n < unroll; ++n) {
        const int pack = first + n * threads;
        if (pack >= count_) break;
        const Logits in = packs_[pack];
        const int first_col = (first_ + pack) * width;
        float out[width];
#pragma unroll
        for (int i = 0; i < width; ++i) out[i] = difference_exponential(in[i], log_sum);
        if (static_cast<unsigned>(row.target_col - first_col) < width) {
#pragma unroll
          for (int i = 0; i < width; ++i) out[i] -= first_col + i == row.target_col ? 1 : 0;
        }
#pragma unroll
        for (int i = 0; i < width; ++i) out[i] *= scale;
        if (first_col + width > all_.cols) {
#pragma unroll
          for (int i = 0; i < width; ++i) out[i] = first_col + i < all_.cols ? out[i] : 0;
        }
        store(to, pack, out);
      }
      __syncthreads();  // all have read the chunk
      fetch(next_row, chunk);
    }
  }

  const Rows<T>& all_;
  Shared& shared_;
  Logits* packs_;
  int rank_, blocks_;
  int first_, count_, chunks_;  // packs of the row; chunks of them
};

template <class T, bool differentiates>
__global__ void __launch_bounds__(threads, together) rows_kernel(const __grid_constant__ Rows<T> all) {
  using Block = RowBlock<T, differentiates>;
  extern __shared__ __align__(128) char memory[];
  __shared__ typename Block::Shared shared;
  if (threadIdx.x == 0) {
    for (Barrier& barrier : shared.full) make_barrier(barrier, 1);
    publish_barriers();
  }
  __syncthreads();
  wait_for_previous();
  Block(all, shared, reinterpret_cast<typename Block::Logits*>(memory)).run();
}

std::int64_t packs_of(const Tensor& logits) { return logits.cols() / width; }

// A power of two, and so a function of the columns alone, as the order of the sums is.
int cluster_blocks(const Tensor& logits) {
  int blocks = 1;
  while (ceil_div<std::int64_t>(packs_of(logits), blocks) > most_chunks * chunk_packs) blocks *= 2;
  return blocks;
}

template <class T, bool differentiates>
void launch_rows(cudaStream_t stream, const Rows<T>& all, int blocks) {
  const auto kernel = rows_kernel<T, differentiates>;
  const int bytes = ceil_div(all.stride / width, blocks) * pack_bytes;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(blocks);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;  // as launch() of launch.hpp
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.blockDim = threads;
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 1;
  config.gridDim = static_cast<unsigned>(blocks);
  int clusters = 1;  // that run at once
  cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  config.numAttrs = 2;
  config.gridDim = static_cast<unsigned>(std::clamp(all.rows, 1, std::max(clusters, 1)) * blocks);
  cudaLaunchKernelEx(&config, kernel, all);
}

}  // namespace

bool takes_cross_entropy_rows(const Tensor& logits, const HopperGpu& gpu) {
  const bool small = logits.dtype == DType::bf16 || logits.dtype == DType::f16;
  return gpu.available && small && logits.cols() > 0 && logits.cols() % width == 0 && aligned16(logits.data) &&
         cluster_blocks(logits) <= most_blocks;
}

void cross_entropy_rows(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found, std::optional<float> scale) {
  const Tensor& logits = args.logits;
  if (logits.rows() == 0) return;
  with_type(logits.dtype, "cross_entropy", [&](auto t) {
    using T = typename decltype(t)::type;
    if constexpr (sizeof(T) == 2) {
      const Rows<T> all{.logits = data_of<T>(logits),
                        .rows = static_cast<int>(logits.rows()),
                        .stride = static_cast<int>(logits.cols()),
                        .targets = data_of<int>(args.targets),
                        .first_id = args.vocabulary.first,
                        .cols = static_cast<int>(args.vocabulary.count),
                        .found = found,
                        .scale = scale.value_or(0)};
      const auto run = scale ? launch_rows<T, true> : launch_rows<T, false>;
      run(stream, all, cluster_blocks(logits));
    }
  });
}

}  // namespace pipetrain::cuda
