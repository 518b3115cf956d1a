#include <algorithm>
#include <cmath>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

namespace {

struct Factors {
  float lr, beta1, beta2, eps, grad_scale;
  float keep, correction1, correction2;
};

Factors factors_of(const AdamW& settings) {
  const double step = static_cast<double>(settings.step);
  return {settings.lr,
          settings.beta1,
          settings.beta2,
          settings.eps,
          settings.grad_scale,
          1.0F - settings.lr * settings.weight_decay,
          static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(settings.beta1), step))),
          static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(settings.beta2), step)))};
}

// As many elements as are stepped at once. A step and its preview cut every tile alike and call one function, because the
// compiler may contract products and sums of each place of the code in its own way.
constexpr std::int64_t update_run = 1024;

// w -= lr * weight_decay * w, then w -= lr * m' / (sqrt(v') + eps) with the bias-corrected moments m', v'.
[[gnu::noinline]] void step_run(float* w, float* first, float* second, const float* g, std::int64_t count, const Factors& f) {
  // Local copies: the compiler vectorises only where it sees that the stores below cannot change these values.
  const float lr = f.lr, beta1 = f.beta1, beta2 = f.beta2, eps = f.eps;
  const float grad_scale = f.grad_scale, decay = f.keep, unbias1 = f.correction1, unbias2 = f.correction2;
  for (std::int64_t i = 0; i < count; ++i) {
    const float scaled = g[i] * grad_scale;
    first[i] = beta1 * first[i] + (1.0F - beta1) * scaled;
    second[i] = beta2 * second[i] + (1.0F - beta2) * scaled * scaled;
    w[i] = w[i] * decay - lr * (first[i] * unbias1) / (std::sqrt(second[i] * unbias2) + eps);
  }
}

}  // namespace

void adamw(CpuStream& stream, const AdamWArgs& args, const AdamW& settings) {
  for_elements(stream, args.weight.elements(), [&, factors = factors_of(settings)](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += update_run)
      step_run(args.weight.as<float>() + at, args.m.as<float>() + at, args.v.as<float>() + at, args.grad.as<float>() + at,
               std::min(update_run, end - at), factors);
  });
}

void adamw_preview(CpuStream& stream, const AdamWArgs& args, const AdamW& settings, const Tensor& result) {
  for_elements(stream, args.weight.elements(), [&, factors = factors_of(settings)](std::int64_t begin, std::int64_t end) {
    alignas(64) float weight[update_run], first[update_run], second[update_run];
    for (std::int64_t at = begin; at < end; at += update_run) {
      const std::int64_t count = std::min(update_run, end - at);
      std::copy_n(args.weight.as<float>() + at, count, weight);
      std::copy_n(args.m.as<float>() + at, count, first);
      std::copy_n(args.v.as<float>() + at, count, second);
      step_run(weight, first, second, args.grad.as<float>() + at, count, factors);
      narrow(result.dtype, weight, count, element_at(result, at));
    }
  });
}

}  // namespace pipetrain::cpu
