#include "ops/cuda/hopper/cross_entropy_rows.hpp"

#include <algorithm>

#include "ops/cuda/hopper/cluster.cuh"
#include "ops/cuda/hopper/cross_entropy_sums.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda {
namespace {

using namespace hopper;

using namespace loss;

// Computes sums and gradient. Clusters alternate over the rows. Each block of a cluster has a range of the row's packs, in
// chunks that arrive one after the other; the next row's chunks overwrite them once they have been used.
template <class T>
class RowBlock {
 public:
  using Logits = Pack<T, width>;

  struct Shared {
    alignas(8) Barrier full[most_chunks];
    LogitSum of_warps[warps];
    float2 of_blocks[2][most_ranges];  // for this row of the cluster and the next
    float log_sum;
  };

  __device__ RowBlock(const LogitRows<T>& all, Shared& shared, Logits* packs)
      : all_(all), shared_(shared), packs_(packs), rank_(cluster_rank()), blocks_(cluster_size()) {
    const int each = all.packs_of_range();
    first_ = rank_ * each;
    count_ = max(0, min(each, all.packs() - first_));
    chunks_ = (count_ + chunk_packs - 1) / chunk_packs;
  }

  __device__ __forceinline__ void run() {
    const int step = static_cast<int>(gridDim.x) / blocks_;
    int row = static_cast<int>(blockIdx.x) / blocks_;
    for (int chunk = 0; chunk < chunks_; ++chunk) fetch(row, chunk);
    sync_cluster();  // all blocks are running
    for (int turn = 0; row < all_.rows; row += step, ++turn) {
      const int target = all_.targets[row];
      const int target_col = all_.target_col(target);
      const LogitSum own = sum_of_thread(turn);
      const int pack = target_col / width - first_;
      const bool holds_target = target_col >= 0 && pack >= 0 && pack < count_;
      float target_logit = 0;
      if (holds_target) target_logit = packs_[pack][target_col % width];
      send_sum(own, turn);
      sync_cluster();
      if (threadIdx.x < 32) {
        const LogitSum sum = sum_of_row<T>(shared_.of_blocks[turn % 2], blocks_);
        shared_.log_sum = sum.log_sum();
        if (threadIdx.x == 0) {
          if (rank_ == 0) all_.found.largest[row] = sum.top, all_.found.sum[row] = sum.total;
          if (holds_target || (rank_ == 0 && target_col < 0)) all_.found.target_logit[row] = target_logit;
        }
      }
      __syncthreads();
      differentiate({row, target_col, target >= 0}, row + step);
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

  __device__ __forceinline__ LogitSum sum_of_thread(int turn) const {
    LogitSum sum{lowest, 0};
#pragma unroll 1
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      wait(shared_.full[chunk], turn % 2);
      const int from = chunk * chunk_packs;
      add_chunk<T>(sum, packs_ + from, min(chunk_packs, count_ - from), all_.cols - (first_ + from) * width);
    }
    return sum;
  }

  // Sends the sum to all blocks of the cluster.
  __device__ __forceinline__ void send_sum(LogitSum sum, int turn) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    sum = sum_of_warp<T>(sum);
    if (lane == 0) shared_.of_warps[warp] = sum;
    __syncthreads();
    if (warp > 0) return;
    sum = sum_of_warp<T>(lane < warps ? shared_.of_warps[lane] : LogitSum{lowest, 0});
    if (lane < blocks_) store_remote(lane, shared_.of_blocks[turn % 2] + rank_, make_float2(sum.top, sum.total));
  }

  // Writes scale (softmax - one_hot), from the same numbers as backward_kernel() of cross_entropy.cu.
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
        for (int i = 0; i < width; ++i) out[i] = difference_exponential<T>(in[i], log_sum);
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

  const LogitRows<T>& all_;
  Shared& shared_;
  Logits* packs_;
  int rank_, blocks_;
  int first_, count_, chunks_;  // packs of the row, and chunks of them
};

template <class T>
__global__ void __launch_bounds__(threads, together) rows_kernel(const __grid_constant__ LogitRows<T> all) {
  using Block = RowBlock<T>;
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

// Returns a power of two that depends on the columns alone, so that the order of the sums does too.
int ranges_of(const Tensor& logits) {
  int ranges = 1;
  while (ceil_div<std::int64_t>(packs_of(logits), ranges) > most_chunks * chunk_packs) ranges *= 2;
  return ranges;
}

// A cluster has a block for every range.
template <class T>
void launch_rows(cudaStream_t stream, const LogitRows<T>& all) {
  const auto kernel = rows_kernel<T>;
  const int blocks = all.ranges, bytes = ceil_div(all.stride / width, blocks) * pack_bytes;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(blocks);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;  // as in launch() of launch.hpp
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.blockDim = threads;
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 1;
  config.gridDim = static_cast<unsigned>(blocks);
  int clusters = 1;  // the number that run at once
  cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  config.numAttrs = 2;
  config.gridDim = static_cast<unsigned>(std::clamp(all.rows, 1, std::max(clusters, 1)) * blocks);
  cudaLaunchKernelEx(&config, kernel, all);
}

}  // namespace

bool takes_cross_entropy_rows(const Tensor& logits, const HopperGpu& gpu) {
  const bool small = logits.dtype == DType::bf16 || logits.dtype == DType::f16;
  return gpu.available && small && logits.cols() > 0 && logits.cols() % width == 0 && aligned16(logits.data) &&
         ranges_of(logits) <= most_ranges;
}

void cross_entropy_rows(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found, std::optional<float> scale) {
  const Tensor& logits = args.logits;
  if (logits.rows() == 0) return;
  with_type(logits.dtype, "cross_entropy", [&](auto t) {
    using T = typename decltype(t)::type;
    if constexpr (sizeof(T) == 2) {
      const LogitRows<T> all{.logits = data_of<T>(logits),
                             .rows = static_cast<int>(logits.rows()),
                             .stride = static_cast<int>(logits.cols()),
                             .targets = data_of<int>(args.targets),
                             .first_id = args.vocabulary.first,
                             .cols = static_cast<int>(args.vocabulary.count),
                             .ranges = ranges_of(logits),
                             .found = found,
                             .scale = scale.value_or(0)};
      scale ? launch_rows(stream, all) : sum_rows(stream, all);
    }
  });
}

}  // namespace pipetrain::cuda
