#include <algorithm>
#include <cmath>

#include "ops/cpu/gelu_gate.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {
namespace {

// Each function computes one row. To vectorise it, the compiler must know that no iteration reads what another has written:
// the forward's pointers never overlap, and the backward may write each gradient over its own value.
void swiglu_forward_row(const float* __restrict gate, const float* __restrict up, float* __restrict out, std::int64_t inner) {
  for (std::int64_t i = 0; i < inner; ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void swiglu_backward_row(const float* grad, const float* gate, const float* up, float* dgate, float* dup, std::int64_t inner) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < inner; ++i) {
    const float s = sigmoid(gate[i]);
    const float silu = gate[i] * s;
    const float dgate_i = grad[i] * up[i] * (s + silu * (1.0F - s)), dup_i = grad[i] * silu;
    dgate[i] = dgate_i;
    dup[i] = dup_i;
  }
}

void geglu_forward_row(const float* __restrict gate, const float* __restrict up, float* __restrict out, std::int64_t inner) {
  for (std::int64_t i = 0; i < inner; ++i) out[i] = gate[i] * gelu_gate(gate[i]) * up[i];
}

void geglu_backward_row(const float* grad, const float* gate, const float* up, float* dgate, float* dup, std::int64_t inner) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < inner; ++i) {
    const float s = gelu_gate(gate[i]);
    const float dgate_i = grad[i] * up[i] * gelu_slope(gate[i], s), dup_i = grad[i] * gate[i] * s;
    dgate[i] = dgate_i;
    dup[i] = dup_i;
  }
}

// Returns the clamped halves of a gated unit, and the gate's sigmoid.
struct ClampedUnit {
  float gate, up, share;
};
ClampedUnit clamped_unit(float gate, float up, const GateClamps& clamps) {
  const float low = std::min(gate, clamps.limit);
  return {low, std::clamp(up, -clamps.limit, clamps.limit), sigmoid(clamps.alpha * low)};
}

void clamped_forward_row(const float* gate, const float* up, const GateClamps& clamps, float* out, std::int64_t inner) {
  for (std::int64_t i = 0; i < inner; ++i) {
    const ClampedUnit unit = clamped_unit(gate[i], up[i], clamps);
    out[i] = (unit.up + 1) * unit.gate * unit.share;
  }
}

// A value beyond its clamp has no gradient.
void clamped_backward_row(const float* grad, const float* gate, const GateClamps& clamps, float* dgate, std::int64_t inner) {
  const float* const up = gate + inner;
  float* const dup = dgate + inner;
  for (std::int64_t i = 0; i < inner; ++i) {
    const ClampedUnit unit = clamped_unit(gate[i], up[i], clamps);
    const bool gate_moves = gate[i] <= clamps.limit, up_moves = std::abs(up[i]) <= clamps.limit;
    const float slope = unit.share * (1 + clamps.alpha * unit.gate * (1 - unit.share));
    dgate[i] = gate_moves ? grad[i] * (unit.up + 1) * slope : 0;
    dup[i] = up_moves ? grad[i] * unit.gate * unit.share : 0;
  }
}

// One row of each kind of unit.
void forward_row(GateKind kind, const GateClamps& clamps, const float* gate, float* out, std::int64_t inner) {
  switch (kind) {
    case GateKind::silu:
      return swiglu_forward_row(gate, gate + inner, out, inner);
    case GateKind::gelu:
      return geglu_forward_row(gate, gate + inner, out, inner);
    case GateKind::clamped:
      return clamped_forward_row(gate, gate + inner, clamps, out, inner);
  }
}

void backward_row(GateKind kind, const GateClamps& clamps, const float* grad, const float* gate, float* dgate,
                  std::int64_t inner) {
  switch (kind) {
    case GateKind::silu:
      return swiglu_backward_row(grad, gate, gate + inner, dgate, dgate + inner, inner);
    case GateKind::gelu:
      return geglu_backward_row(grad, gate, gate + inner, dgate, dgate + inner, inner);
    case GateKind::clamped:
      return clamped_backward_row(grad, gate, clamps, dgate, inner);
  }
}

}  // namespace

void swiglu(CpuStream& stream, const SwigluArgs& args) {
  const Tensor gate_up = args.gate_up, y = args.y;
  const std::int64_t inner = y.cols();
  const float* const weights = args.weights.shape.rank() == 0 ? nullptr : args.weights.as<float>();
  for_row_tiles(stream, used_rows(args.used, y.rows()), inner, [&](std::int64_t begin, std::int64_t end) {
    const Rows gates(gate_up), outs(y);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* gate = gates[row];
      outs.write(row, [&](float* out) {
        forward_row(args.gate, args.clamps, gate, out, inner);
        if (weights == nullptr) return;
        round_in_place(y.dtype, out, inner);
        for (std::int64_t i = 0; i < inner; ++i) out[i] = weights[row] * out[i];
      });
    }
  });
}

void swiglu_backward(CpuStream& stream, const SwigluBackwardArgs& args) {
  const Tensor dy = args.dy, gate_up = args.gate_up, dgate_up = args.dgate_up;
  const std::int64_t inner = dy.cols();
  for_row_tiles(stream, used_rows(args.used, dy.rows()), inner, [&](std::int64_t begin, std::int64_t end) {
    const Rows grads(dy), gates(gate_up), dgates(dgate_up);
    for (std::int64_t row = begin; row < end; ++row) {
      const float *grad = grads[row], *gate = gates[row];
      dgates.write(row, [&](float* dgate) { backward_row(args.gate, args.clamps, grad, gate, dgate, inner); });
    }
  });
}

void weighed_swiglu_backward(CpuStream& stream, const WeighedSwigluBackwardArgs& args) {
  const Tensor dy = args.dy, gate_up = args.gate_up, dgate_up = args.dgate_up;
  const std::int64_t inner = dy.cols();
  for_row_tiles(stream, used_rows(args.used, dy.rows()), inner, [&](std::int64_t begin, std::int64_t end) {
    const Rows grads(dy), gates(gate_up), dgates(dgate_up);
    const Floats value(inner), value_grad(inner);  // of the unit, before the weight
    float *const y = value.data(), *const grad = value_grad.data();
    for (std::int64_t row = begin; row < end; ++row) {
      const float *const weighed_grad = grads[row], *const gate = gates[row];
      const float weight = args.weights.as<float>()[row];
      forward_row(args.gate, args.clamps, gate, y, inner);
      round_in_place(dy.dtype, y, inner);
      double product = 0;
      for (std::int64_t i = 0; i < inner; ++i) product += static_cast<double>(weighed_grad[i]) * y[i];
      args.dweights.as<float>()[row] = static_cast<float>(product);
      for (std::int64_t i = 0; i < inner; ++i) grad[i] = weight * weighed_grad[i];
      round_in_place(dy.dtype, grad, inner);
      dgates.write(row, [&](float* dgate) { backward_row(args.gate, args.clamps, grad, gate, dgate, inner); });
    }
  });
}

}  // namespace pipetrain::cpu
