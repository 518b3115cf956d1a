#include "ops/cuda/dropout.cuh"

#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

struct TokenOffset {
  std::int64_t first_token, sequence, first_column;
};

// One thread handles W adjacent columns, all in one block of draws.
template <class T, int W>
__global__ void dropout_kernel(const T* x, const T* residual, T* out, std::int64_t packs, int cols, TokenOffset offset,
                               Dropout dropout) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const std::int64_t token = offset.first_token + pack * W / cols;
  const int column = static_cast<int>(pack * W % cols + offset.first_column);
  const auto words = dropout_words(dropout, static_cast<std::uint32_t>(column / dropout_columns),
                                   static_cast<std::uint32_t>(token % offset.sequence),
                                   dropout.first_sample + static_cast<std::uint32_t>(token / offset.sequence), 0);
  const auto in = load<W>(x, pack);
  Real<T> values[W];
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float factor = dropout_factor(dropout, words, column + i);
    values[i] = factor == 0.0F ? Real<T>{0} : static_cast<Real<T>>(in[i]) * factor;
  }
  if (residual != nullptr) {
    const auto more = load<W>(residual, pack);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] += more[i];
  }
  store(out, pack, values);
}

}  // namespace

void dropout(cudaStream_t stream, const DropoutArgs& args) {
  const std::int64_t count = args.x.elements();
  if (count == 0) return;
  const auto cols = static_cast<int>(args.x.cols());
  const bool wide = cols % dropout_columns == 0 && args.first_column % dropout_columns == 0 && aligned16(args.x.data) &&
                    aligned16(args.out.data) && (!args.residual || aligned16(args.residual->data));
  const auto run = [&](auto t, auto w) {
    using T = typename decltype(t)::type;
    constexpr int W = decltype(w)::value;
    launch(stream, dropout_kernel<T, W>, blocks_for(count / W, 256), 256, 0, data_of<T>(args.x), data_or_null<T>(args.residual),
           data_of<T>(args.out), count / W, cols, TokenOffset{args.first_token, args.sequence, args.first_column},
           args.dropout);
  };
  with_type(args.x.dtype, "dropout", [&](auto t) {
    if (wide) {
      run(t, Constant<static_cast<int>(dropout_columns)>{});
    } else {
      run(t, Constant<1>{});
    }
  });
}

}  // namespace pipetrain::cuda
