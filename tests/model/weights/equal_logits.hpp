// Weights of routers that send every token to the same experts.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "model/weights/weights.hpp"

namespace pipetrain::test {

// Every router chooses the same experts for all tokens: of equal logits those with the lowest numbers.
class EqualLogits final : public WeightSource {
 public:
  explicit EqualLogits(std::shared_ptr<const WeightSource> weights) : weights_(std::move(weights)) {}
  void load(const Parameter& parameter, float* out) const override {
    weights_->load(parameter, out);
    if (parameter.role == TensorRole::router_weight) std::fill_n(out, parameter.local.elements(), 0.0F);
  }

 private:
  std::shared_ptr<const WeightSource> weights_;
};

}  // namespace pipetrain::test
