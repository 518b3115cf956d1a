#include "ops/cpu/optimizers/tensor_rules.hpp"
#include "ops/cpu/optimizers/tensor_sums.hpp"

namespace pipetrain::cpu {

void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Lamb& rule) {
  float *const weight = args.weight.as<float>(), *const update = args.scratch.as<float>();
  float *const m = args.states[0].as<float>(), *const v = args.states[1].as<float>();
  const float* const grad = args.grad.as<float>();
  const std::int64_t count = args.weight.elements();
  const auto steps = static_cast<double>(rule.step);
  const double unbias1 = 1 / (1 - std::pow(double{rule.beta1}, steps)), unbias2 = 1 / (1 - std::pow(double{rule.beta2}, steps));
  for_each_element(stream, count, [&](std::int64_t i) {
    const double scaled = double{grad[i]} * rule.grad_scale;
    m[i] = static_cast<float>(m[i] + (1 - double{rule.beta1}) * (scaled - m[i]));
    v[i] = static_cast<float>(v[i] + (1 - double{rule.beta2}) * (scaled * scaled - v[i]));
    const double adam = m[i] * unbias1 / (std::sqrt(v[i] * unbias2) + rule.eps);
    update[i] = static_cast<float>(adam + double{rule.weight_decay} * weight[i]);
  });
  const double weights = norm_of(stream, count, weight), updates = norm_of(stream, count, update);
  const double rate = rule.lr * (weights > 0 && updates > 0 ? weights / updates : 1);
  for_each_element(stream, count, [&](std::int64_t i) { weight[i] = static_cast<float>(weight[i] - rate * update[i]); });
}

}  // namespace pipetrain::cpu
