#include <cmath>

#include "model/cpu/kernels.hpp"
#include "model/cpu/tiles.hpp"

namespace pipetrain::cpu {

// w -= lr * weight_decay * w, then w -= lr * m' / (sqrt(v') + eps) with the bias-corrected moments m', v'.
void adamw(CpuStream& stream, const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v,
           const AdamW& settings) {
  const double step = static_cast<double>(settings.step);
  const float correction1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(settings.beta1), step)));
  const float correction2 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(settings.beta2), step)));
  const float keep = 1.0F - settings.lr * settings.weight_decay;
  for_elements(stream, weight.elements(), [&](std::int64_t begin, std::int64_t end) {
    float *w = weight.as<float>(), *first = m.as<float>(), *second = v.as<float>();
    const float* g = grad.as<float>();
    for (std::int64_t i = begin; i < end; ++i) {
      const float scaled = g[i] * settings.grad_scale;
      first[i] = settings.beta1 * first[i] + (1.0F - settings.beta1) * scaled;
      second[i] = settings.beta2 * second[i] + (1.0F - settings.beta2) * scaled * scaled;
      w[i] = w[i] * keep - settings.lr * (first[i] * correction1) / (std::sqrt(second[i] * correction2) + settings.eps);
    }
  });
}

}  // namespace pipetrain::cpu
