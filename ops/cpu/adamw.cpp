#include <cmath>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

// w -= lr * weight_decay * w, then w -= lr * m' / (sqrt(v') + eps) with the bias-corrected moments m', v'.
void adamw(CpuStream& stream, const AdamWArgs& args, const AdamW& settings) {
  const double step = static_cast<double>(settings.step);
  const float correction1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(settings.beta1), step)));
  const float correction2 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(settings.beta2), step)));
  const float keep = 1.0F - settings.lr * settings.weight_decay;
  for_elements(stream, args.weight.elements(), [&](std::int64_t begin, std::int64_t end) {
    float *w = args.weight.as<float>(), *first = args.m.as<float>(), *second = args.v.as<float>();
    const float* g = args.grad.as<float>();
    // Local copies: the compiler vectorises only where it sees that the stores below cannot change these values.
    const float lr = settings.lr, beta1 = settings.beta1, beta2 = settings.beta2, eps = settings.eps;
    const float grad_scale = settings.grad_scale, decay = keep, unbias1 = correction1, unbias2 = correction2;
    for (std::int64_t i = begin; i < end; ++i) {
      const float scaled = g[i] * grad_scale;
      first[i] = beta1 * first[i] + (1.0F - beta1) * scaled;
      second[i] = beta2 * second[i] + (1.0F - beta2) * scaled * scaled;
      w[i] = w[i] * decay - lr * (first[i] * unbias1) / (std::sqrt(second[i] * unbias2) + eps);
    }
  });
}

}  // namespace pipetrain::cpu
