// The rows of tokens that experts compute, one for each token and chosen expert.
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/used_rows.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int unroll = 4;  // packs a thread: their loads are in flight together

// Calls body(pack, row, pack of the row) for each of a thread's packs. 32-bit divisions are the fast ones.
struct PackPlace {
  unsigned pack, row, at;
  bool exists;
};
__device__ PackPlace place_of(int n, unsigned row_packs, unsigned packs) {
  const unsigned pack = blockIdx.x * (threads * unroll) + threadIdx.x + static_cast<unsigned>(n) * threads;
  return {pack, pack / row_packs, pack % row_packs, pack < packs};
}

template <class T, int W>
__global__ void gather_kernel(const T* x, const int* tokens, T* rows, const int* used, unsigned row_packs, unsigned packs) {
  wait_for_previous();
  packs = used_packs(used, row_packs, packs);
  Pack<T, W> in[unroll];
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const PackPlace place = place_of(n, row_packs, packs);
    if (place.exists) in[n] = load<W>(x, static_cast<std::int64_t>(tokens[place.row]) * row_packs + place.at);
  }
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const PackPlace place = place_of(n, row_packs, packs);
    if (place.exists) reinterpret_cast<Pack<T, W>*>(rows)[place.pack] = in[n];
  }
}

template <class T, int W>
__global__ void weigh_kernel(const T* x, const float* weights, T* y, const int* used, unsigned row_packs, unsigned packs) {
  wait_for_previous();
  packs = used_packs(used, row_packs, packs);
  Pack<T, W> in[unroll];
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const PackPlace place = place_of(n, row_packs, packs);
    if (place.exists) in[n] = load<W>(x, place.pack);
  }
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const PackPlace place = place_of(n, row_packs, packs);
    if (!place.exists) continue;
    const Real<T> weight = weights[place.row];
    Real<T> out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = weight * in[n][i];
    store(y, place.pack, out);
  }
}

struct RowSumsView {
  const int* places;
  int chosen;
  const float* addend;
  unsigned row_packs, packs;
};

// One pack of a token a thread.
template <class T, class O, int W>
__global__ void sum_rows_kernel(RowSumsView view, const T* rows, const T* residual, O* out) {
  wait_for_previous();
  const unsigned pack = blockIdx.x * threads + threadIdx.x;
  if (pack >= view.packs) return;
  const unsigned token = pack / view.row_packs, at = pack % view.row_packs;
  const int* const places = view.places + static_cast<std::int64_t>(token) * view.chosen;
  Real<T> sum[W] = {};
#pragma unroll 8
  for (int c = 0; c < view.chosen; ++c) {
    if (places[c] < 0) continue;
    const auto in = load<W>(rows, static_cast<std::int64_t>(places[c]) * view.row_packs + at);
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += in[i];
  }
  if (view.addend != nullptr) {
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += view.addend[static_cast<std::int64_t>(pack) * W + i];
  }
  if (residual != nullptr) {
    const auto in = load<W>(residual, pack);
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += in[i];
  }
  store(out, pack, sum);
}

// Calls body(T, W, packs of a row, packs in all) for tensors of `like`'s type and shape.
template <class Body>
void with_packs(const Tensor& like, bool aligned, const char* what, const Body& body) {
  with_type(like.dtype, what, [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && like.cols() % full_width<T> == 0, [&](auto w) {
      const std::int64_t row_packs = like.cols() / decltype(w)::value, packs = like.rows() * row_packs;
      if (packs >= std::int64_t{1} << 31)
        throw Error(ErrorKind::unavailable, std::string(what) + " on GPUs: too many tokens at once");
      if (packs > 0) body(t, w, static_cast<unsigned>(row_packs), static_cast<unsigned>(packs));
    });
  });
}

}  // namespace

void gather_rows(cudaStream_t stream, const GatherRowsArgs& args) {
  with_packs(args.rows, aligned16(args.x.data) && aligned16(args.rows.data), "gather_rows",
             [&](auto t, auto w, unsigned row_packs, unsigned packs) {
               using T = typename decltype(t)::type;
               launch(stream, gather_kernel<T, decltype(w)::value>, blocks_for(packs, threads * unroll), threads, 0,
                      data_of<T>(args.x), data_of<int>(args.tokens), data_of<T>(args.rows), used_or_null(args.used), row_packs,
                      packs);
             });
}

void weigh_rows(cudaStream_t stream, const WeighRowsArgs& args) {
  with_packs(args.y, aligned16(args.x.data) && aligned16(args.y.data), "weigh_rows",
             [&](auto t, auto w, unsigned row_packs, unsigned packs) {
               using T = typename decltype(t)::type;
               launch(stream, weigh_kernel<T, decltype(w)::value>, blocks_for(packs, threads * unroll), threads, 0,
                      data_of<T>(args.x), data_of<float>(args.weights), data_of<T>(args.y), used_or_null(args.used), row_packs,
                      packs);
             });
}

void sum_rows(cudaStream_t stream, const RowSums& sums) {
  const bool aligned = aligned16(sums.rows.data) && aligned16(sums.out.data) &&
                       (!sums.addend || aligned16(sums.addend->data)) && (!sums.residual || aligned16(sums.residual->data));
  const Tensor like{nullptr, sums.out.shape, sums.rows.dtype};
  with_packs(like, aligned, "sum_rows", [&](auto t, auto w, unsigned row_packs, unsigned packs) {
    using T = typename decltype(t)::type;
    const RowSumsView view{data_of<int>(sums.places), static_cast<int>(sums.places.cols()), data_or_null<float>(sums.addend),
                           row_packs, packs};
    const auto start = [&](auto o) {
      using O = typename decltype(o)::type;
      launch(stream, sum_rows_kernel<T, O, decltype(w)::value>, blocks_for(packs, threads), threads, 0, view,
             data_of<T>(sums.rows), data_or_null<T>(sums.residual), data_of<O>(sums.out));
    };
    sums.out.dtype == DType::f32 ? start(Type<float>{}) : start(t);
  });
}

}  // namespace pipetrain::cuda
