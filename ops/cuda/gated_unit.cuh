// The gated units of MLPs with their gradients (GateKind), and the choice of a kernel for one. Only for .cu files.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "ops/arguments/activations.hpp"
#include "ops/cuda/gelu.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

// Returns the number of type T nearest to value.
template <class T>
__device__ Real<T> rounded(Real<T> value) {
  return to_float(from_float<T>(static_cast<float>(value)));
}

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

}  // namespace pipetrain::cuda
