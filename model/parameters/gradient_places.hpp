// GradientPlaces holds the tensors in which a stage adds up the gradients of its parameters.
#pragma once

#include <vector>

#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Blocks may share memory where their gradients do not live across each other's: see GradientListener::opens.
struct GradientPlaces {
  std::vector<std::vector<Tensor>> blocks;  // f32, like BlockParameters::tensors; without a shape for frozen ones
  std::vector<std::vector<Tensor>> zeroed;  // by chunk, of every trained group: ParameterLayout::zeroed_grads
};

// Returns true if a tensor's gradient is to be computed; the gradient of a frozen tensor has no shape.
inline bool has_place(const Tensor& gradient) { return gradient.shape.rank() > 0; }

}  // namespace pipetrain
