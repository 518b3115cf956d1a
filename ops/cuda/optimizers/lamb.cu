#include <cmath>

#include "ops/cuda/optimizers/element_sums.cuh"
#include "ops/cuda/optimizers/tensor_rules.hpp"

namespace pipetrain::cuda {
namespace {

// Changes the moments and writes the update; its value is the update's square.
struct LambUpdate {
  const float *grad, *weight;
  float *m, *v, *update;
  double grad_scale, beta1, beta2, unbias1, unbias2, eps, weight_decay;

  __device__ double operator()(std::int64_t i) const {
    const double scaled = grad[i] * grad_scale;
    m[i] = static_cast<float>(m[i] + (1 - beta1) * (scaled - m[i]));
    v[i] = static_cast<float>(v[i] + (1 - beta2) * (scaled * scaled - v[i]));
    const double adam = m[i] * unbias1 / (sqrt(v[i] * unbias2) + eps);
    update[i] = static_cast<float>(adam + weight_decay * weight[i]);
    return static_cast<double>(update[i]) * update[i];
  }
};

struct KeepLambRate {
  const double* weight_norm;
  double lr;
  double* rate;
  __device__ void operator()(double squares) const {
    const double weights = *weight_norm, updates = sqrt(squares);
    *rate = lr * (weights > 0 && updates > 0 ? weights / updates : 1);
  }
};

struct LambWeight {
  float* weight;
  const float* update;
  const double* rate;
  __device__ void operator()(std::int64_t i) const { weight[i] = static_cast<float>(weight[i] - *rate * update[i]); }
};

}  // namespace

void step_tensor(cudaStream_t stream, const TensorUpdateArgs& args, const Lamb& rule, void* scratch) {
  double *const weight_norm = numbers_of(scratch), *const rate = weight_norm + 1, *const partial = partial_sums_of(scratch);
  auto *const weight = data_of<float>(args.weight), *const update = data_of<float>(args.scratch);
  const std::int64_t count = args.weight.elements();
  const auto steps = static_cast<double>(rule.step);
  const LambUpdate lamb{.grad = data_of<float>(args.grad),
                        .weight = weight,
                        .m = data_of<float>(args.states[0]),
                        .v = data_of<float>(args.states[1]),
                        .update = update,
                        .grad_scale = rule.grad_scale,
                        .beta1 = rule.beta1,
                        .beta2 = rule.beta2,
                        .unbias1 = 1 / (1 - std::pow(double{rule.beta1}, steps)),
                        .unbias2 = 1 / (1 - std::pow(double{rule.beta2}, steps)),
                        .eps = rule.eps,
                        .weight_decay = rule.weight_decay};
  sum_elements(stream, count, partial, SquareOf{weight}, KeepRoot{weight_norm});
  sum_elements(stream, count, partial, lamb, KeepLambRate{weight_norm, rule.lr, rate});
  for_each_element(stream, count, LambWeight{weight, update, rate});
}

}  // namespace pipetrain::cuda
