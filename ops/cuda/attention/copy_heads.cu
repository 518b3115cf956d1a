#include "ops/cuda/attention/copy_heads.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;

// In packs, but for `heads`.
struct HeadPacks {
  unsigned row, first, head;
};

// blockIdx.x: the row
template <class T, int W>
__global__ void __launch_bounds__(threads)
    copy_heads_kernel(const T* from, HeadPacks source, T* to, HeadPacks target, unsigned heads, bool adds) {
  wait_for_previous();
  const unsigned pack = blockIdx.y * threads + threadIdx.x, head = pack / target.head, at = pack % target.head;
  if (head >= heads) return;
  Pack<T, W> in{};
  if (at < source.head)
    in = load<W>(from, static_cast<std::int64_t>(blockIdx.x) * source.row + source.first + head * source.head + at);
  const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * target.row + target.first + pack;
  if constexpr (std::is_same_v<T, float>) {
    if (adds) {
      const auto old = load<W>(to, place);
#pragma unroll
      for (int i = 0; i < W; ++i) in.at[i] += old.at[i];
    }
  }
  reinterpret_cast<Pack<T, W>*>(to)[place] = in;
}

}  // namespace

void copy_heads(cudaStream_t stream, const HeadColumns& from, const HeadColumns& to, Accumulate accumulate) {
  if (to.matrix.rows() == 0) return;
  with_type(to.matrix.dtype, "copy_heads", [&](auto t) {
    using T = typename decltype(t)::type;
    const auto suits = [](const HeadColumns& of) {
      return aligned16(of.matrix.data) && of.matrix.cols() % full_width<T> == 0 && of.first_column % full_width<T> == 0 &&
             of.dim % full_width<T> == 0;
    };
    with_width<T>(suits(from) && suits(to), [&](auto w) {
      constexpr int W = decltype(w)::value;
      const auto packs_of = [](const HeadColumns& of) {
        return HeadPacks{static_cast<unsigned>(of.matrix.cols() / W), static_cast<unsigned>(of.first_column / W),
                         static_cast<unsigned>(of.dim / W)};
      };
      const dim3 blocks(static_cast<unsigned>(to.matrix.rows()), blocks_for(to.heads * (to.dim / W), threads));
      launch(stream, copy_heads_kernel<T, W>, blocks, threads, 0, data_of<T>(from.matrix), packs_of(from),
             data_of<T>(to.matrix), packs_of(to), static_cast<unsigned>(to.heads), accumulate == Accumulate::yes);
    });
  });
}

}  // namespace pipetrain::cuda
