// The costs of an optimizer's step for each weight, on average over the trained tensors of a model.
#pragma once

#include "model/config/config.hpp"
#include "model/optimizer/optimizer_settings.hpp"

namespace pipetrain {

struct OptimizerCosts {
  double state_bytes = 0;  // of all states
  double flops = 0;        // of matrix products, of an optimizer that multiplies whole tensors
};

// Pure.
OptimizerCosts optimizer_costs(const OptimizerSettings& settings, const ModelConfig& config);

}  // namespace pipetrain
