// The queries, keys and values of latent attention: see ops/cpu/attention/latent_attention.cpp. Each thread writes as many
// adjacent columns of a token as 16 bytes hold, all of one part of one head.
#include "ops/cuda/attention/latent.cuh"
#include "ops/cuda/attention/latent_kernels.hpp"
#include "ops/document_positions.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;

struct LatentView {
  LatentColumns of;
  const float* cos_sin;
  const int* documents;  // or null
  int sequence;
  bool interleaved;

  __device__ LatentTurn turn(std::int64_t token, float direction) const {
    return {cos_sin + position_of(token, sequence, documents) * of.rotated, of.rotated / 2, interleaved, direction};
  }
};

template <int W, class T>
__device__ void copy_pack(const T* from, T* to) {
  *reinterpret_cast<Pack<T, W>*>(to) = *reinterpret_cast<const Pack<T, W>*>(from);
}

// Writes W rotated columns, from `at` on, of both tensors' `rotated` ones.
template <int W, class T>
__device__ void turn_pack(const LatentTurn& turn, const T* from, int at, T* to) {
  Real<T> out[W];
  turn.rotate<W>(from, at, out);
  store(to + at, 0, out);
}

// blockIdx.x: the token
template <class T, int W>
__global__ void __launch_bounds__(threads)
    heads_kernel(LatentView view, const T* q, const T* key_value, const T* shared, T* qkv) {
  wait_for_previous();
  const LatentColumns& of = view.of;
  const std::int64_t token = blockIdx.x;
  const int column = static_cast<int>(blockIdx.y * threads + threadIdx.x) * W;
  if (column >= of.packed()) return;
  T* const to = qkv + token * of.packed() + column;
  const T* const expanded = key_value + token * of.heads * of.expanded();
  if (column >= of.first_value()) {
    const int at = column - of.first_value(), head = at / of.value;
    return copy_pack<W>(expanded + head * of.expanded() + of.plain + at % of.value, to);
  }
  const bool is_query = column < of.first_key();
  const int at = is_query ? column : column - of.first_key(), head = at / of.head(), within = at % of.head();
  if (within < of.plain)
    return copy_pack<W>(is_query ? q + token * of.first_key() + at : expanded + head * of.expanded() + within, to);
  const int turned = within - of.plain;
  const T* const from = is_query ? q + token * of.first_key() + at - turned : shared + token * of.rotated;
  turn_pack<W>(view.turn(token, 1), from, turned, to - turned);
}

// blockIdx.x: the token. Writes dq and dkey_value.
template <class T, int W>
__global__ void __launch_bounds__(threads) heads_backward_kernel(LatentView view, const T* dqkv, T* dq, T* dkey_value) {
  wait_for_previous();
  const LatentColumns& of = view.of;
  const std::int64_t token = blockIdx.x;
  const T* const from = dqkv + token * of.packed();
  int column = static_cast<int>(blockIdx.y * threads + threadIdx.x) * W;
  if (column < of.first_key()) {
    const int within = column % of.head(), turned = within - of.plain;
    T* const to = dq + token * of.first_key() + column;
    if (turned < 0) return copy_pack<W>(from + column, to);
    return turn_pack<W>(view.turn(token, -1), from + column - turned, turned, to - turned);
  }
  column -= of.first_key();
  if (column >= of.heads * of.expanded()) return;
  const int head = column / of.expanded(), within = column % of.expanded();
  copy_pack<W>(within < of.plain ? from + of.first_key() + head * of.head() + within
                                 : from + of.first_value() + head * of.value + within - of.plain,
               dkey_value + token * of.heads * of.expanded() + column);
}

// One block a token: adds the heads' gradients of the shared columns in order, and rotates the sums back.
template <class T>
__global__ void shared_backward_kernel(LatentView view, const T* dqkv, float* drotated) {
  using R = Real<T>;
  extern __shared__ float sums[];  // [rotated]
  wait_for_previous();
  const LatentColumns& of = view.of;
  const std::int64_t token = blockIdx.x;
  const T* const keys = dqkv + token * of.packed() + of.first_key() + of.plain;
  for (int column = static_cast<int>(threadIdx.x); column < of.rotated; column += static_cast<int>(blockDim.x)) {
    R sum = 0;
#pragma unroll 8
    for (int head = 0; head < of.heads; ++head) sum += to_float(keys[head * of.head() + column]);
    sums[column] = static_cast<float>(sum);
  }
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < of.rotated; column += static_cast<int>(blockDim.x)) {
    R out[1];
    view.turn(token, -1).rotate<1>(sums, column, out);
    drotated[token * of.rotated + column] = static_cast<float>(out[0]);
  }
}

template <class Args>
LatentView latent_view(const SegmentShape& shape, const Args& args) {
  return {latent_columns(shape, args.cos_sin), data_of<float>(args.cos_sin), data_or_null<int>(args.documents),
          static_cast<int>(shape.queries), args.interleaved};
}

// Calls body(T, W, blocks): `columns` of each token are written.
template <class Body>
void with_latent_packs(const SegmentShape& shape, const LatentColumns& of, DType dtype, int columns, bool aligned, Body body) {
  with_type(dtype, "latent_heads", [&](auto t) {
    using T = typename decltype(t)::type;
    constexpr int full = full_width<T>;
    const bool wide = aligned && of.plain % full == 0 && of.rotated / 2 % full == 0 && of.value % full == 0;
    with_width<T>(wide, [&](auto w) {
      body(t, w, dim3(static_cast<unsigned>(shape.tokens()), blocks_for(columns, threads * decltype(w)::value)));
    });
  });
}

}  // namespace

void latent_heads(cudaStream_t stream, const SegmentShape& shape, const LatentHeadsArgs& args) {
  if (shape.tokens() == 0) return;
  const LatentView view = latent_view(shape, args);
  const bool aligned =
      aligned16(args.q.data) && aligned16(args.key_value.data) && aligned16(args.rotated.data) && aligned16(args.qkv.data);
  with_latent_packs(shape, view.of, args.qkv.dtype, view.of.packed(), aligned, [&](auto t, auto w, dim3 blocks) {
    using T = typename decltype(t)::type;
    launch(stream, heads_kernel<T, decltype(w)::value>, blocks, threads, 0, view, data_of<T>(args.q),
           data_of<T>(args.key_value), data_of<T>(args.rotated), data_of<T>(args.qkv));
  });
}

void latent_heads_backward(cudaStream_t stream, const SegmentShape& shape, const LatentHeadsBackwardArgs& args) {
  if (shape.tokens() == 0) return;
  const LatentView view = latent_view(shape, args);
  const bool aligned = aligned16(args.dqkv.data) && aligned16(args.dq.data) && aligned16(args.dkey_value.data);
  const int columns = view.of.first_key() + view.of.heads * view.of.expanded();
  with_latent_packs(shape, view.of, args.dqkv.dtype, columns, aligned, [&](auto t, auto w, dim3 blocks) {
    using T = typename decltype(t)::type;
    launch(stream, heads_backward_kernel<T, decltype(w)::value>, blocks, threads, 0, view, data_of<T>(args.dqkv),
           data_of<T>(args.dq), data_of<T>(args.dkey_value));
    launch(stream, shared_backward_kernel<T>, static_cast<unsigned>(shape.tokens()), 64,
           static_cast<std::size_t>(view.of.rotated) * sizeof(float), view, data_of<T>(args.dqkv),
           data_of<float>(args.drotated));
  });
}

}  // namespace pipetrain::cuda
