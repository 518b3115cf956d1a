// Where a stage adds up the gradients of its parameters.
#pragma once

#include <vector>

#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Blocks may share memory where their gradients do not live across each other's: see GradientListener::opens.
struct GradientPlaces {
  std::vector<std::vector<Tensor>> blocks;  // f32, like BlockParameters::tensors
  std::vector<Tensor> zeroed;               // by chunk: ParameterLayout::zeroed_grads
};

}  // namespace pipetrain
