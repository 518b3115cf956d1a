#include "comm/cuda/cuda_rank_sum.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "comm/cuda/peer_kernels.cuh"
#include "core/error.hpp"

namespace pipetrain {
namespace {

using namespace peer;

static_assert(max_ranks == max_ranks_at_once);

struct Pieces {
  const void* at[max_ranks];
  int count;
};

template <class T, class TO, int W, bool maximum>
__global__ void __launch_bounds__(threads) rank_sum_kernel(const __grid_constant__ Pieces pieces, TO* out, std::int64_t packs) {
  Team team{};  // reduce() only reads its size
  team.size = pieces.count;
  const T* tensors[max_ranks];
#pragma unroll
  for (int rank = 0; rank < max_ranks; ++rank) {
    tensors[rank] = rank < pieces.count ? static_cast<const T*>(pieces.at[rank]) : nullptr;
  }
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; at < packs; at += stride) {
    typename Accumulator<T>::type sum[W];
    reduce<maximum, T, W>(team, tensors, at, sum);
    Pack<TO, W> packed;
#pragma unroll
    for (int i = 0; i < W; ++i) packed.at[i] = convert<TO>(sum[i]);
    reinterpret_cast<Pack<TO, W>*>(out)[at] = packed;
  }
}

bool divides16(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

template <class T, class TO, int W>
void launch(CudaStream& stream, const RankSum& sum, std::int64_t first, std::int64_t packs) {
  if (packs == 0 || !stream.begin()) return;
  Pieces pieces{};
  pieces.count = static_cast<int>(sum.pieces.size());
  for (std::size_t rank = 0; rank < sum.pieces.size(); ++rank)
    pieces.at[rank] = static_cast<const T*>(sum.pieces[rank]) + first;
  TO* out = static_cast<TO*>(sum.out) + first;
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>((packs + threads - 1) / threads, 1, sum.most_blocks));
  if (sum.reduction == Reduction::max) {
    rank_sum_kernel<T, TO, W, true><<<blocks, threads, 0, stream.native()>>>(pieces, out, packs);
  } else {
    rank_sum_kernel<T, TO, W, false><<<blocks, threads, 0, stream.native()>>>(pieces, out, packs);
  }
  stream.end("adding the pieces of several ranks");
}

// Handles 16 bytes at a time where everything is aligned, the rest one by one.
template <class T, class TO>
void run(CudaStream& stream, const RankSum& sum) {
  constexpr int W = 16 / static_cast<int>(sizeof(T));
  const bool wide = divides16(sum.out) && std::all_of(sum.pieces.begin(), sum.pieces.end(), divides16);
  const std::int64_t packs = wide ? sum.count / W : 0;
  launch<T, TO, W>(stream, sum, 0, packs);
  launch<T, TO, 1>(stream, sum, packs * W, sum.count - packs * W);
}

void run(CudaStream& stream, const RankSum& sum) {
  if (sum.dtype == DType::f32 && sum.out_dtype == DType::f32) return run<float, float>(stream, sum);
  if (sum.dtype == DType::f64 && sum.out_dtype == DType::f64) return run<double, double>(stream, sum);
  if (sum.dtype == DType::bf16 && sum.out_dtype == DType::bf16) return run<__nv_bfloat16, __nv_bfloat16>(stream, sum);
  if (sum.dtype == DType::bf16 && sum.out_dtype == DType::f32) return run<__nv_bfloat16, float>(stream, sum);
  if (sum.dtype == DType::f16 && sum.out_dtype == DType::f16) return run<__half, __half>(stream, sum);
  if (sum.dtype == DType::f16 && sum.out_dtype == DType::f32) return run<__half, float>(stream, sum);
  throw Error(ErrorKind::internal,
              std::string("a sum over ranks of ") + to_string(sum.dtype) + " into " + to_string(sum.out_dtype));
}

}  // namespace

void enqueue_rank_sum(CudaStream& stream, const RankSum& sum) {
  if (sum.pieces.size() <= max_ranks) return run(stream, sum);
  if (sum.dtype != sum.out_dtype || size_of(sum.dtype) == 2) {
    throw Error(ErrorKind::internal,
                std::string("a sum of ") + to_string(sum.dtype) + " over more than " + std::to_string(max_ranks) + " ranks");
  }
  // The sum so far is the first piece of the next sum, kept in the type of the additions, so that no bit changes.
  RankSum part = sum;
  part.pieces.assign(sum.pieces.begin(), sum.pieces.begin() + max_ranks);
  run(stream, part);
  for (std::size_t next = max_ranks; next < sum.pieces.size(); next += max_ranks - 1) {
    const std::size_t end = std::min(next + max_ranks - 1, sum.pieces.size());
    part.pieces.assign(1, sum.out);
    part.pieces.insert(part.pieces.end(), sum.pieces.begin() + static_cast<std::ptrdiff_t>(next),
                       sum.pieces.begin() + static_cast<std::ptrdiff_t>(end));
    run(stream, part);
  }
}

}  // namespace pipetrain
