// OptimizerSettings holds the name of the optimizer that updates the weights, and its factors: see
// optimizer.hpp. The defaults are AdamW's; default_settings() has those of the others.
#pragma once

#include <string>

namespace pipetrain {

struct OptimizerSettings {
  std::string name = "adamw";
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0.1F;
};

}  // namespace pipetrain
