// Gradients of a stage in one flat arena.
#pragma once

#include "core/tensor.hpp"
#include "model/parameters/gradient_places.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain::test {

// Returns all gradients in the arena, which has the shape [layout.grad_elements].
GradientPlaces gradients_in(const ParameterLayout& layout, const Tensor& arena);

}  // namespace pipetrain::test
