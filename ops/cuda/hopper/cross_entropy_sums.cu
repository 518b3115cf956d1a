#include "ops/cuda/hopper/cross_entropy_sums.cuh"

#include <algorithm>

#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda::hopper {
namespace {

using namespace loss;

// Blocks alternate over the rows. Chunks arrive in a ring, as far ahead as it is long, including those of the next row.
template <class T>
class RowStream {
 public:
  using Logits = Pack<T, width>;
  static constexpr int places = most_chunks;

  struct Shared {
    alignas(8) Barrier full[places];
    LogitSum of_warps[most_ranges][warps];
    float2 of_ranges[most_ranges];
  };

  __device__ RowStream(const LogitRows<T>& all, Shared& shared, Logits* packs)
      : all_(all), shared_(shared), packs_(packs), ahead_{static_cast<int>(blockIdx.x), 0, 0} {}

  __device__ __forceinline__ void run() {
    for (int place = 0; place < places; ++place) fetch(place);
    for (int row = static_cast<int>(blockIdx.x); row < all_.rows; row += static_cast<int>(gridDim.x)) sum_row(row);
  }

 private:
  struct Chunk {
    int row, range, chunk;
  };

  __device__ __forceinline__ int first_pack(const Chunk& of) const {
    return of.range * all_.packs_of_range() + of.chunk * chunk_packs;
  }
  // Returns the number of packs in the chunk; the last chunks of a range may have fewer or none.
  __device__ __forceinline__ int packs_of(const Chunk& of) const {
    return min(chunk_packs, min((of.range + 1) * all_.packs_of_range(), all_.packs()) - first_pack(of));
  }
  __device__ __forceinline__ void advance(Chunk& of) const {
    ++of.chunk;
    while (of.row < all_.rows && packs_of(of) <= 0) {
      of.chunk = 0;
      if (++of.range == all_.ranges) of.range = 0, of.row += static_cast<int>(gridDim.x);
    }
  }

  __device__ __forceinline__ void fetch(int place) {
    if (threadIdx.x != 0 || ahead_.row >= all_.rows) return;
    const int bytes = packs_of(ahead_) * pack_bytes;
    arrive_expecting(shared_.full[place], bytes);
    load_bytes(packs_ + place * chunk_packs,
               all_.logits + static_cast<std::int64_t>(ahead_.row) * all_.stride + first_pack(ahead_) * width, bytes,
               shared_.full[place]);
    advance(ahead_);
  }

  __device__ __forceinline__ void sum_row(int row) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int target_col = all_.target_col(all_.targets[row]);
    float target_logit = 0;
    for (int range = 0; range < all_.ranges; ++range) {
      LogitSum sum{lowest, 0};
      for (int chunk = 0;; ++chunk) {
        const Chunk of{row, range, chunk};
        const int packs = packs_of(of), first = first_pack(of), place = at_ % places;
        if (packs <= 0) break;
        const Logits* const in = packs_ + place * chunk_packs;
        wait(shared_.full[place], at_ / places % 2);
        ++at_;
        add_chunk<T>(sum, in, packs, all_.cols - first * width);
        const int of_target = target_col / width - first;
        if (target_col >= 0 && of_target >= 0 && of_target < packs) target_logit = in[of_target][target_col % width];
        __syncthreads();  // all have read the chunk
        fetch(place);
      }
      sum = sum_of_warp<T>(sum);
      if (lane == 0) shared_.of_warps[range][warp] = sum;
    }
    __syncthreads();
    if (warp < all_.ranges) {
      const LogitSum sum = sum_of_warp<T>(lane < warps ? shared_.of_warps[warp][lane] : LogitSum{lowest, 0});
      if (lane == 0) shared_.of_ranges[warp] = make_float2(sum.top, sum.total);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    const LogitSum sum = sum_of_row<T>(shared_.of_ranges, all_.ranges);
    all_.found.largest[row] = sum.top, all_.found.sum[row] = sum.total, all_.found.target_logit[row] = target_logit;
  }

  const LogitRows<T>& all_;
  Shared& shared_;
  Logits* packs_;
  Chunk ahead_;  // the next to load
  int at_ = 0;   // the number of chunks before this one
};

template <class T>
__global__ void __launch_bounds__(threads, together) sums_kernel(const __grid_constant__ LogitRows<T> all) {
  extern __shared__ __align__(128) char memory[];
  __shared__ typename RowStream<T>::Shared shared;
  if (threadIdx.x == 0) {
    for (Barrier& barrier : shared.full) make_barrier(barrier, 1);
    publish_barriers();
  }
  __syncthreads();
  wait_for_previous();
  RowStream<T>(all, shared, reinterpret_cast<typename RowStream<T>::Logits*>(memory)).run();
}

}  // namespace

template <class T>
void sum_rows(cudaStream_t stream, const LogitRows<T>& all) {
  constexpr int bytes = RowStream<T>::places * chunk_packs * pack_bytes;
  cudaFuncSetAttribute(sums_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  int device = 0, multiprocessors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  launch(stream, sums_kernel<T>, static_cast<unsigned>(std::min(all.rows, together * multiprocessors)), threads, bytes, all);
}

template void sum_rows(cudaStream_t, const LogitRows<bf16>&);
template void sum_rows(cudaStream_t, const LogitRows<half>&);

}  // namespace pipetrain::cuda::hopper
