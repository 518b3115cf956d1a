// A rank's slices of a model's tensors, from files or drawn, into its arena on the device.
#pragma once

#include "core/stream.hpp"
#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// arena: flat, f32, or bf16, to which values are rounded (to nearest even). Waits for the stream. Throws what the source
// throws.
void load_weights(const WeightSource& source, const ParameterLayout& layout, Stream& stream, const Tensor& arena);

}  // namespace pipetrain
