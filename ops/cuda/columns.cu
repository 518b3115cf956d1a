#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

// A range of columns of a matrix, counted in packs.
template <class T>
struct Columns {
  T* first;
  std::int64_t row_packs;  // the packs in all its columns
};

// One thread handles a pack of a row's columns.
template <class S, class T, int W>
__global__ void copy_columns_kernel(Columns<const S> from, Columns<T> to, std::int64_t packs_of_row, std::int64_t packs) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const std::int64_t row = pack / packs_of_row, at = pack % packs_of_row;
  const auto in = load<W>(from.first, row * from.row_packs + at);
  if constexpr (std::is_same_v<S, T>) {
    reinterpret_cast<Pack<T, W>*>(to.first)[row * to.row_packs + at] = in;
  } else {
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = in[i];
    store(to.first, row * to.row_packs + at, values);
  }
}

template <class S, class T>
void copy(cudaStream_t stream, const CopyColumnsArgs& args) {
  const std::int64_t source_cols = args.source.cols(), target_cols = args.target.cols();
  const S* const from = data_of<S>(args.source) + args.source_begin;
  T* const to = data_of<T>(args.target) + args.target_begin;
  constexpr std::int64_t width = full_width<T>;
  const bool wide =
      aligned16(from) && aligned16(to) && source_cols % width == 0 && target_cols % width == 0 && args.count % width == 0;
  with_width<T>(wide, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const std::int64_t packs = args.source.rows() * (args.count / W);
    launch(stream, copy_columns_kernel<S, T, W>, blocks_for(packs, 256), 256, 0, Columns<const S>{from, source_cols / W},
           Columns<T>{to, target_cols / W}, args.count / W, packs);
  });
}

}  // namespace

void copy_columns(cudaStream_t stream, const CopyColumnsArgs& args) {
  if (args.source.rows() == 0 || args.count == 0) return;
  with_type(args.target.dtype, "copy_columns", [&](auto t) {
    using T = typename decltype(t)::type;
    if (args.source.dtype == DType::f32) return copy<float, T>(stream, args);
    if (args.source.dtype == args.target.dtype) return copy<T, T>(stream, args);
    if constexpr (std::is_same_v<T, float>) {
      if (args.source.dtype == DType::bf16) return copy<__nv_bfloat16, T>(stream, args);
      if (args.source.dtype == DType::f16) return copy<__half, T>(stream, args);
    }
    throw Error(ErrorKind::internal, std::string("copy_columns: not from ") + to_string(args.source.dtype));
  });
}

}  // namespace pipetrain::cuda
