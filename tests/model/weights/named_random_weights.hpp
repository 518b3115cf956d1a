// Random weights that a test can compute from the name alone.
#pragma once

#include "model/weights/weights.hpp"

namespace pipetrain::test {

// Normal(0, 1 / sqrt(inputs)) matrices, Normal(0, 0.5) tables, Normal(1, 0.1) norms and Normal(0, 0.1) biases; a
// function of the logical tensor's name only, whatever the layout.
class NamedRandomWeights final : public WeightSource {
 public:
  void load(const Parameter& parameter, float* out) const override;
};

}  // namespace pipetrain::test
