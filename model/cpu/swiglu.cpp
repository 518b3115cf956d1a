#include "model/cpu/kernels.hpp"
#include "model/cpu/tiles.hpp"
#include "model/cpu/vector_math.hpp"

namespace pipetrain::cpu {
namespace {

// One row each. Their pointers never overlap, which the compiler must know to vectorise.
void forward_row(const float* __restrict gate, const float* __restrict up, float* __restrict out, std::int64_t inner) {
  for (std::int64_t i = 0; i < inner; ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void backward_row(const float* __restrict grad, const float* __restrict gate, const float* __restrict up,
                  float* __restrict dgate, float* __restrict dup, std::int64_t inner) {
  for (std::int64_t i = 0; i < inner; ++i) {
    const float s = sigmoid(gate[i]);
    const float silu = gate[i] * s;
    dgate[i] = grad[i] * up[i] * (s + silu * (1.0F - s));
    dup[i] = grad[i] * silu;
  }
}

}  // namespace

void swiglu(CpuStream& stream, const Tensor& gate_up, const Tensor& y) {
  const std::int64_t inner = y.cols();
  for_row_tiles(stream, y.rows(), inner, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up.as<float>() + row * 2 * inner;
      forward_row(gate, gate + inner, y.as<float>() + row * inner, inner);
    }
  });
}

void swiglu_backward(CpuStream& stream, const Tensor& dy, const Tensor& gate_up, const Tensor& dgate_up) {
  const std::int64_t inner = dy.cols();
  for_row_tiles(stream, dy.rows(), inner, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up.as<float>() + row * 2 * inner;
      float* dgate = dgate_up.as<float>() + row * 2 * inner;
      backward_row(dy.as<float>() + row * inner, gate, gate + inner, dgate, dgate + inner, inner);
    }
  });
}

}  // namespace pipetrain::cpu
