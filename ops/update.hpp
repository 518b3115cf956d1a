// Optimizers that update every element independently. The rule of each is written once for the host's compiler
// and the GPU's. A rule has two parts: the settings of one step, an alternative of UpdateRule, and the function
// of one weight, its gradient and its states, which rule_of() makes from them.
//
// A backend passes its own `Math`, a type that no other backend uses: the rules are compiled for different
// processors, and no two backends may share the machine code of one. It has root(x), weighted_sum(a, x, b, y) =
// a x + b y, mean_square(b, v, x) = b v + (1 - b) x^2 and scaled_quotient(s, x, y) = s x / y, whose roundings
// differ from backend to backend but never within one.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "core/tensor.hpp"
#include "ops/host_device.hpp"

namespace pipetrain {

// AdamW with bias-corrected moments: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".
struct AdamW {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  std::int64_t step = 1;  // counts from 1, for the bias corrections
  float grad_scale = 1;   // the clipping factor, applied to the gradient first
};

// Returns what a moment with this factor, which began at zero, is multiplied with after so many steps.
inline float adam_correction(double beta, std::int64_t steps) {
  return static_cast<float>(1.0 / (1.0 - std::pow(beta, static_cast<double>(steps))));
}

template <class Math>
class AdamWRule {
 public:
  static constexpr std::size_t states = 2;  // the first and the second moment

  explicit AdamWRule(const AdamW& s)
      : lr_(s.lr),
        beta1_(s.beta1),
        beta2_(s.beta2),
        eps_(s.eps),
        grad_scale_(s.grad_scale),
        keep_(1.0F - s.lr * s.weight_decay),
        unbias1_(adam_correction(s.beta1, s.step)),
        unbias2_(adam_correction(s.beta2, s.step)) {}

  // Returns the new weight: w - lr weight_decay w - lr m' / (sqrt(v') + eps) with the corrected moments m', v'.
  PIPETRAIN_HOST_DEVICE float operator()(float weight, float grad, float& m, float& v) const {
    const float scaled = grad * grad_scale_;
    m = Math::weighted_sum(beta1_, m, 1.0F - beta1_, scaled);
    v = Math::mean_square(beta2_, v, scaled);
    return weight * keep_ - Math::scaled_quotient(lr_, m * unbias1_, Math::root(v * unbias2_) + eps_);
  }

 private:
  float lr_, beta1_, beta2_, eps_, grad_scale_, keep_, unbias1_, unbias2_;
};

template <class Math>
AdamWRule<Math> rule_of(const AdamW& settings) {
  return AdamWRule<Math>(settings);
}

// AdamW whose momenta come ready and whose second moments stay as they were after step `frozen_after`: the second stage of
// Tang et al. 2021, "1-bit Adam", with the bias corrections of AdamW.
struct FrozenAdamW {
  AdamW adamw;  // the gradient is the new first moment
  std::int64_t frozen_after = 1;
};

template <class Math>
class FrozenAdamWRule {
 public:
  static constexpr std::size_t states = 2;  // the first and the second moment

  explicit FrozenAdamWRule(const FrozenAdamW& s)
      : lr_(s.adamw.lr),
        eps_(s.adamw.eps),
        grad_scale_(s.adamw.grad_scale),
        keep_(1.0F - s.adamw.lr * s.adamw.weight_decay),
        unbias1_(adam_correction(s.adamw.beta1, s.adamw.step)),
        unbias2_(adam_correction(s.adamw.beta2, s.frozen_after)) {}

  // Returns the new weight as AdamWRule does; m becomes the scaled gradient, v remains.
  PIPETRAIN_HOST_DEVICE float operator()(float weight, float momentum, float& m, float& v) const {
    m = momentum * grad_scale_;
    return weight * keep_ - Math::scaled_quotient(lr_, m * unbias1_, Math::root(v * unbias2_) + eps_);
  }

 private:
  float lr_, eps_, grad_scale_, keep_, unbias1_, unbias2_;
};

template <class Math>
FrozenAdamWRule<Math> rule_of(const FrozenAdamW& settings) {
  return FrozenAdamWRule<Math>(settings);
}

// Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms": the sign of an average of momentum and gradient.
struct Lion {
  float lr = 0, beta1 = 0, beta2 = 0, weight_decay = 0;
  float grad_scale = 1;  // as in AdamW
};

template <class Math>
class LionRule {
 public:
  static constexpr std::size_t states = 1;  // the momentum

  explicit LionRule(const Lion& s)
      : lr_(s.lr), beta1_(s.beta1), beta2_(s.beta2), grad_scale_(s.grad_scale), keep_(1.0F - s.lr * s.weight_decay) {}

  // Returns the new weight: w - lr weight_decay w - lr sign(beta1 m + (1 - beta1) g), with the momentum m before the step.
  PIPETRAIN_HOST_DEVICE float operator()(float weight, float grad, float& m) const {
    const float scaled = grad * grad_scale_;
    const float mean = Math::weighted_sum(beta1_, m, 1.0F - beta1_, scaled);
    m = Math::weighted_sum(beta2_, m, 1.0F - beta2_, scaled);
    const float sign = mean > 0 ? 1.0F : mean < 0 ? -1.0F : mean;  // zero stays zero, NaN stays NaN
    return weight * keep_ - lr_ * sign;
  }

 private:
  float lr_, beta1_, beta2_, grad_scale_, keep_;
};

template <class Math>
LionRule<Math> rule_of(const Lion& settings) {
  return LionRule<Math>(settings);
}

// Gradient descent with momentum and decay in the gradient, as torch.optim.SGD defines them (without dampening).
struct Sgd {
  float lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  float grad_scale = 1;  // as in AdamW
};

template <class Math>
class SgdRule {
 public:
  static constexpr std::size_t states = 1;  // the momentum

  explicit SgdRule(const Sgd& s)
      : lr_(s.lr), momentum_(s.momentum), decay_(s.weight_decay), grad_scale_(s.grad_scale), nesterov_(s.nesterov) {}

  // With d = g + weight_decay w: m becomes momentum m + d, and the new weight is w - lr m, or w - lr (d + momentum m).
  PIPETRAIN_HOST_DEVICE float operator()(float weight, float grad, float& m) const {
    const float descent = Math::weighted_sum(decay_, weight, grad_scale_, grad);
    m = Math::weighted_sum(momentum_, m, 1.0F, descent);
    const float step = nesterov_ ? Math::weighted_sum(momentum_, m, 1.0F, descent) : m;
    return Math::weighted_sum(1.0F, weight, -lr_, step);
  }

 private:
  float lr_, momentum_, decay_, grad_scale_;
  bool nesterov_;
};

template <class Math>
SgdRule<Math> rule_of(const Sgd& settings) {
  return SgdRule<Math>(settings);
}

// Sgd without momentum, which keeps no state.
struct PlainSgd {
  float lr = 0, weight_decay = 0;
  float grad_scale = 1;  // as in AdamW
};

template <class Math>
class PlainSgdRule {
 public:
  static constexpr std::size_t states = 0;

  explicit PlainSgdRule(const PlainSgd& s) : lr_(s.lr), decay_(s.weight_decay), grad_scale_(s.grad_scale) {}

  // Returns the new weight: w - lr (g + weight_decay w).
  PIPETRAIN_HOST_DEVICE float operator()(float weight, float grad) const {
    return Math::weighted_sum(1.0F, weight, -lr_, Math::weighted_sum(decay_, weight, grad_scale_, grad));
  }

 private:
  float lr_, decay_, grad_scale_;
};

template <class Math>
PlainSgdRule<Math> rule_of(const PlainSgd& settings) {
  return PlainSgdRule<Math>(settings);
}

using UpdateRule = std::variant<AdamW, Lion, Sgd, PlainSgd, FrozenAdamW>;
constexpr std::size_t most_update_states = 2;

// All tensors have one length. The weight and the states are f32 and change in place.
struct UpdateArgs {
  Tensor weight;
  Tensor grad;                                    // f32
  std::array<Tensor, most_update_states> states;  // as many as the rule has
  std::optional<Tensor> rounded = {};             // bf16, f16 or f32, output: the new weight, rounded to nearest even
  bool preview = false;                           // only `rounded` is written
  UpdateRule rule;
};

}  // namespace pipetrain
