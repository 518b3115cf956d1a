#include "ops/cuda/gelu.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/used_rows.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int unroll = 2;  // packs a thread: loads of both are in flight together

// The gradients of both halves of a gated unit.
template <class R>
struct UnitGradients {
  R gate, up;
};

// The activation of the gate x is x s(x). Its derivative is s(x) times rest(x, s(x)).
template <class T>
struct SiluGate {
  using R = Real<T>;
  static __device__ R factor(R x) { return sigmoid<T>(x); }
  static __device__ R rest(R x, R s) { return 1 + x * (1 - s); }
};
template <class T>
struct GeluGate {
  using R = Real<T>;
  static __device__ R factor(R x) { return gelu_gate<T>(x); }
  static __device__ R rest(R x, R s) { return 1 + (1 - s) * (x * (gelu_linear<R> + 3 * gelu_cubic<R> * x * x)); }
};

// A unit whose halves do not limit each other.
template <class T, template <class> class Gate>
struct PlainUnit {
  using R = Real<T>;
  __device__ explicit PlainUnit(const GateClamps&) {}
  __device__ R forward(R gate, R up) const { return gate * Gate<T>::factor(gate) * up; }
  __device__ UnitGradients<R> backward(R grad, R gate, R up) const {
    const R s = Gate<T>::factor(gate);
    return {grad * up * s * Gate<T>::rest(gate, s), grad * gate * s};
  }
};
template <class T>
using SiluUnit = PlainUnit<T, SiluGate>;
template <class T>
using GeluUnit = PlainUnit<T, GeluGate>;

// GateKind::clamped. A value beyond its clamp has no gradient.
template <class T>
struct ClampedUnit {
  using R = Real<T>;
  R alpha, limit;

  __device__ explicit ClampedUnit(const GateClamps& clamps) : alpha(clamps.alpha), limit(clamps.limit) {}
  __device__ R low(R gate) const { return gate < limit ? gate : limit; }
  __device__ R clamped(R up) const { return up < -limit ? -limit : up > limit ? limit : up; }
  __device__ R forward(R gate, R up) const { return (clamped(up) + 1) * low(gate) * sigmoid<T>(alpha * low(gate)); }
  __device__ UnitGradients<R> backward(R grad, R gate, R up) const {
    const R x = low(gate), s = sigmoid<T>(alpha * x);
    return {gate <= limit ? grad * (clamped(up) + 1) * s * (1 + alpha * x * (1 - s)) : R{0},
            up >= -limit && up <= limit ? grad * x * s : R{0}};
  }
};

// largest: null, or the target of raise_to(), for which every block's largest value is found.
template <class Unit, class T, int W>
__global__ void swiglu_kernel(const T* gate_up, T* y, unsigned* largest, const int* used, GateClamps clamps, unsigned row_packs,
                              std::int64_t packs) {
  const Unit unit(clamps);
  wait_for_previous();
  packs = used_packs(used, row_packs, packs);
  unsigned found = 0;
  Pack<T, W> gate[unroll], up[unroll];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * unroll + threadIdx.x;
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack >= packs) continue;
    const std::int64_t row = static_cast<unsigned>(pack) / row_packs;
    gate[n] = load<W>(gate_up, pack + row * row_packs);
    up[n] = load<W>(gate_up, pack + (row + 1) * row_packs);
  }
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack >= packs) continue;
    Real<T> out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      out[i] = unit.forward(gate[n][i], up[n][i]);
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

// Calls body(Type<Unit>, T, W, packs of a row, packs in all); `y` is [T, I].
template <class Body>
void with_gate(const Tensor& y, GateKind gate, bool aligned, Body body) {
  with_type(y.dtype, "swiglu", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && y.cols() % full_width<T> == 0, [&](auto w) {
      const std::int64_t packs = y.elements() / decltype(w)::value;
      if (packs >= std::int64_t{1} << 32) throw Error(ErrorKind::unavailable, "swiglu on GPUs: too many tokens at once");
      const auto row_packs = static_cast<unsigned>(y.cols() / decltype(w)::value);
      if (gate == GateKind::gelu) return body(Type<GeluUnit<T>>{}, t, w, row_packs, packs);
      if (gate == GateKind::clamped) return body(Type<ClampedUnit<T>>{}, t, w, row_packs, packs);
      body(Type<SiluUnit<T>>{}, t, w, row_packs, packs);
    });
  });
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
    launch(stream, swiglu_kernel<Unit, T, decltype(w)::value>, blocks_for(packs, threads * unroll), threads, 0,
           data_of<T>(gate_up), data_of<T>(y), raised, used_or_null(args.used), args.clamps, row_packs, packs);
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
