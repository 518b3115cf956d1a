// The optimizers that step whole tensors: the states that each keeps of a tensor, and the rule of one step of it. A tensor that
// the rule does not cover, such as an embedding under Muon, is stepped by the optimizer's rule of elements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/optimizer/optimizer_settings.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/tensor_update.hpp"

namespace pipetrain {

// The values that change from step to step.
struct OptimizerStep {
  float lr = 0;
  std::int64_t step = 1;  // counts applied steps, from 1
  float grad_scale = 1;   // the clipping factor, applied to the gradient first
  // The applied steps after which the second moments of averaged parts (OptimizerPart) stay as they are; 0: not yet.
  std::int64_t frozen_after = 0;
};

// A logical tensor as an optimizer sees it.
struct SteppedTensor {
  Shape shape;              // as Hugging Face has it
  bool transposed = false;  // the stored matrix has its columns as rows
  // True for a matrix between activations: neither a table of tokens or positions nor the head.
  bool is_hidden = false;
  bool decays = true;

  bool is_matrix() const { return shape.rank() == 2; }
};
SteppedTensor stepped_tensor(const Parameter& parameter);
SteppedTensor stepped_tensor(const TensorSpec& tensor);

// All functions are pure.
struct TensorKind {
  // Returns the shape of each state in the order of the optimizer's states; {0} where the tensor does not have it. A state in
  // the shape of the tensor is stored like it.
  std::vector<Shape> (*states)(const OptimizerSettings& settings, const SteppedTensor& tensor) = nullptr;
  // Returns the settings of a step; nothing for a tensor whose elements are stepped independently, with the states that it has.
  std::optional<TensorRule> (*rule)(const OptimizerSettings& settings, const OptimizerStep& step,
                                    const SteppedTensor& tensor) = nullptr;
};

extern const TensorKind adafactor_kind, came_kind, lamb_kind, muon_kind, galore_kind;

}  // namespace pipetrain
