#include <algorithm>
#include <utility>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/optimizers/tensor_rules.hpp"
#include "ops/cpu/optimizers/tensor_sums.hpp"
#include "ops/newton_schulz.hpp"

namespace pipetrain::cpu {
namespace {

// The matrices of the iteration, in scratch memory. A is on the matrix's smaller side.
struct NewtonSchulz {
  NewtonSchulz(const Tensor& scratch, const Shape& shape) : wide(shape[0] <= shape[1]) {
    const std::int64_t side = std::min(shape[0], shape[1]);
    auto* next = scratch.as<float>();
    const auto take = [&](const Shape& own) {
      const Tensor taken{next, own, DType::f32};
      next += own.elements();
      return taken;
    };
    x = take(shape);
    y = take(shape);
    gram = take({side, side});
    factor = take({side, side});
  }

  // gram = X X^T, or X^T X of a tall matrix.
  void multiply_by_itself(CpuStream& stream) const {
    wide ? matmul(stream, MatmulKind::forward, x, x, false, gram) : weight_grad(stream, x, x, false, gram);
  }
  // y += factor X, or X factor of a tall matrix. The factor is symmetric.
  void add_product(CpuStream& stream) const {
    wide ? matmul(stream, MatmulKind::input_grad, factor, x, true, y) : matmul(stream, MatmulKind::forward, x, factor, true, y);
  }

  bool wide;
  Tensor x, y, gram, factor;
};

void iterate(CpuStream& stream, NewtonSchulz& matrices) {
  const std::int64_t count = matrices.x.elements(), squares = matrices.gram.elements();
  for (int step = 0; step < newton_schulz_steps; ++step) {
    matrices.multiply_by_itself(stream);
    matmul(stream, MatmulKind::forward, matrices.gram, matrices.gram, false, matrices.factor);
    float *const factor = matrices.factor.as<float>(), *const gram = matrices.gram.as<float>();
    for_each_element(stream, squares,
                     [=](std::int64_t i) { factor[i] = newton_schulz_b * gram[i] + newton_schulz_c * factor[i]; });
    float *const x = matrices.x.as<float>(), *const y = matrices.y.as<float>();
    for_each_element(stream, count, [=](std::int64_t i) { y[i] = newton_schulz_a * x[i]; });
    matrices.add_product(stream);
    std::swap(matrices.x, matrices.y);
  }
}

}  // namespace

void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Muon& rule) {
  float *const weight = args.weight.as<float>(), *const momentum = args.states[0].as<float>();
  const float* const grad = args.grad.as<float>();
  const std::int64_t count = args.weight.elements();
  NewtonSchulz matrices(args.scratch, args.weight.shape);
  float* const direction = matrices.x.as<float>();
  for_each_element(stream, count, [&](std::int64_t i) {
    const float scaled = grad[i] * rule.grad_scale;
    momentum[i] += (1 - rule.momentum) * (scaled - momentum[i]);
    direction[i] = rule.nesterov ? scaled + rule.momentum * (momentum[i] - scaled) : momentum[i];
  });
  const auto unit = static_cast<float>(1 / std::max(norm_of(stream, count, direction), least_direction_norm));
  for_each_element(stream, count, [&](std::int64_t i) { direction[i] *= unit; });
  iterate(stream, matrices);
  const float* const update = matrices.x.as<float>();
  const float keep = 1 - rule.lr * rule.weight_decay, rate = rule.lr * rule.update_scale;
  for_each_element(stream, count, [&](std::int64_t i) { weight[i] = weight[i] * keep - rate * update[i]; });
}

}  // namespace pipetrain::cpu
