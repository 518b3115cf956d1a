#include <cmath>
#include <vector>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/optimizers/eigenvectors.hpp"
#include "ops/cpu/optimizers/tensor_rules.hpp"
#include "ops/cpu/optimizers/tensor_sums.hpp"

namespace pipetrain::cpu {
namespace {

// Returns G^T G, whose eigenvectors are G's right singular vectors, or G G^T for the left ones.
std::vector<double> gram_matrix(CpuStream& stream, const Tensor& matrix, bool right) {
  const std::int64_t rows = matrix.rows(), columns = matrix.cols(), side = right ? columns : rows;
  const float* const g = matrix.as<float>();
  std::vector<double> gram(static_cast<std::size_t>(side * side), 0);
  stream.parallel_for(side, [&](std::int64_t i) {
    double* const out = gram.data() + i * side;
    for (std::int64_t r = 0; right && r < rows; ++r) {
      const double factor = g[r * columns + i];
      for (std::int64_t k = 0; k < side; ++k) out[k] += factor * g[r * columns + k];
    }
    for (std::int64_t k = 0; !right && k < side; ++k) {
      for (std::int64_t c = 0; c < columns; ++c) out[k] += double{g[i * columns + c]} * g[k * columns + c];
    }
  });
  return gram;
}

// vectors [r, side] = the first singular vectors of the gradient.
void find_vectors(CpuStream& stream, const Tensor& grad, bool right, const Tensor& vectors) {
  const auto side = static_cast<std::size_t>(vectors.cols()), count = static_cast<std::size_t>(vectors.rows());
  const std::vector<double> found = leading_eigenvectors(gram_matrix(stream, grad, right), side, count);
  for (std::size_t i = 0; i < found.size(); ++i) vectors.as<float>()[i] = static_cast<float>(found[i]);
}

}  // namespace

void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const GaLore& rule) {
  const Tensor &m = args.states[0], &v = args.states[1], &vectors = args.states[2];
  if (rule.refreshes) find_vectors(stream, args.grad, rule.right, vectors);
  auto* const scratch = args.scratch.as<float>();
  const Tensor low{scratch, m.shape, DType::f32}, update{scratch + low.elements(), args.weight.shape, DType::f32};
  matmul(stream, rule.right ? MatmulKind::forward : MatmulKind::input_grad, rule.right ? args.grad : vectors,
         rule.right ? vectors : args.grad, false, low);
  float *const of_low = low.as<float>(), *const first = m.as<float>(), *const second = v.as<float>();
  for_each_element(stream, low.elements(), [&](std::int64_t i) {
    const double scaled = double{of_low[i]} * rule.grad_scale;
    first[i] = static_cast<float>(first[i] + (1 - double{rule.beta1}) * (scaled - first[i]));
    second[i] = static_cast<float>(second[i] + (1 - double{rule.beta2}) * (scaled * scaled - second[i]));
    of_low[i] = static_cast<float>(first[i] / (std::sqrt(double{second[i]}) + rule.eps));
  });
  rule.right ? matmul(stream, MatmulKind::input_grad, low, vectors, false, update)
             : weight_grad(stream, vectors, low, false, update);
  const auto steps = static_cast<double>(rule.step);
  const double unbias = std::sqrt(1 - std::pow(double{rule.beta2}, steps)) / (1 - std::pow(double{rule.beta1}, steps));
  const double rate = double{rule.lr} * unbias * rule.scale, keep = 1 - double{rule.lr} * rule.weight_decay;
  float *const weight = args.weight.as<float>(), *const change = update.as<float>();
  for_each_element(stream, args.weight.elements(),
                   [&](std::int64_t i) { weight[i] = static_cast<float>((weight[i] - rate * change[i]) * keep); });
}

}  // namespace pipetrain::cpu
