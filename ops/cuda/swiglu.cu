#include "ops/cuda/gated_unit.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/used_rows.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int unroll = 2;  // packs a thread: loads of both are in flight together

// largest: null, or the target of raise_by_block(). weights: the factors of the rows, not read unless Weighed: a kernel
// that tested the pointer instead would take more registers without weights.
template <class Unit, class T, int W, bool Weighed>
__global__ void swiglu_kernel(const T* gate_up, T* y, const float* weights, unsigned* largest, const int* used,
                              GateClamps clamps, unsigned row_packs, std::int64_t packs) {
  const Unit unit(clamps);
  wait_for_previous();
  packs = used_packs(used, row_packs, packs);
  unsigned found = 0;
  Pack<T, W> gate[unroll], up[unroll];
  float weight[unroll] = {};
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * unroll + threadIdx.x;
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack >= packs) continue;
    const std::int64_t row = static_cast<unsigned>(pack) / row_packs;
    gate[n] = load<W>(gate_up, pack + row * row_packs);
    up[n] = load<W>(gate_up, pack + (row + 1) * row_packs);
    if constexpr (Weighed) weight[n] = weights[row];
  }
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack >= packs) continue;
    Real<T> out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      out[i] = unit.forward(gate[n][i], up[n][i]);
      if constexpr (Weighed) out[i] = weight[n] * rounded<T>(out[i]);
      found = max(found, magnitude(out[i]));
    }
    store(y, pack, out);
  }
  if (largest != nullptr) raise_by_block<T>(largest, found);
}

template <class Unit, class T, int W>
__global__ void swiglu_backward_kernel(const T* dy, const T* gate_up, T* dgate_up, unsigned* largest, const int* used,
                                       GateClamps clamps, unsigned row_packs, std::int64_t packs) {
  const Unit unit(clamps);
  wait_for_previous();
  packs = used_packs(used, row_packs, packs);
  unsigned found = 0;
  Pack<T, W> gate[unroll], up[unroll], grad[unroll];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * unroll + threadIdx.x;
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack >= packs) continue;
    const std::int64_t row = static_cast<unsigned>(pack) / row_packs;
    gate[n] = load<W>(gate_up, pack + row * row_packs);
    up[n] = load<W>(gate_up, pack + (row + 1) * row_packs);
    grad[n] = load<W>(dy, pack);
  }
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack >= packs) continue;
    const std::int64_t row = static_cast<unsigned>(pack) / row_packs;
    Real<T> dgate[W], dup[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const auto gradients = unit.backward(grad[n][i], gate[n][i], up[n][i]);
      dup[i] = gradients.up;
      dgate[i] = gradients.gate;
      found = max(found, max(magnitude(dup[i]), magnitude(dgate[i])));
    }
    store(dgate_up, pack + row * row_packs, dgate);
    store(dgate_up, pack + (row + 1) * row_packs, dup);
  }
  if (largest != nullptr) raise_by_block<T>(largest, found);
}

}  // namespace

void swiglu(cudaStream_t stream, const SwigluArgs& args) {
  const Tensor &gate_up = args.gate_up, &y = args.y;
  unsigned* const raised = begin_largest(stream, args.largest);
  if (y.elements() == 0) return;
  const bool aligned = aligned16(gate_up.data) && aligned16(y.data);
  with_gate(y, args.gate, aligned, [&](auto unit, auto t, auto w, unsigned row_packs, std::int64_t packs) {
    using Unit = typename decltype(unit)::type;
    using T = typename decltype(t)::type;
    const auto start = [&](auto kernel) {
      launch(stream, kernel, blocks_for(packs, threads * unroll), threads, 0, data_of<T>(gate_up), data_of<T>(y),
             data_of<float>(args.weights), raised, used_or_null(args.used), args.clamps, row_packs, packs);
    };
    constexpr int width = decltype(w)::value;
    args.weights.shape.rank() == 0 ? start(swiglu_kernel<Unit, T, width, false>) : start(swiglu_kernel<Unit, T, width, true>);
  });
}

void swiglu_backward(cudaStream_t stream, const SwigluBackwardArgs& args) {
  const Tensor &dy = args.dy, &gate_up = args.gate_up, &dgate_up = args.dgate_up;
  unsigned* const raised = begin_largest(stream, args.largest);
  if (dy.elements() == 0) return;
  const bool aligned = aligned16(gate_up.data) && aligned16(dy.data) && aligned16(dgate_up.data);
  with_gate(dy, args.gate, aligned, [&](auto unit, auto t, auto w, unsigned row_packs, std::int64_t packs) {
    using Unit = typename decltype(unit)::type;
    using T = typename decltype(t)::type;
    launch(stream, swiglu_backward_kernel<Unit, T, decltype(w)::value>, blocks_for(packs, threads * unroll), threads, 0,
           data_of<T>(dy), data_of<T>(gate_up), data_of<T>(dgate_up), raised, used_or_null(args.used), args.clamps, row_packs,
           packs);
  });
}

}  // namespace pipetrain::cuda
