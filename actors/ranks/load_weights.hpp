// Loads a rank's slices of a model's tensors, read from files or drawn at random, onto its device.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "core/device.hpp"
#include "core/stream.hpp"
#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// The callbacks that receive slices. Several threads call them at once, each for another slice.
struct SliceTarget {
  // Returns memory that the source may write the whole slice to, or null to get the slice by store(). May itself be null.
  std::function<float*(std::size_t slice)> in_place;
  std::function<void(std::size_t slice, std::span<float> values)> store;
};
// Loads `count` slices, the largest first, on the loading threads of the device. Throws what the source and the target throw.
void load_slices(const WeightSource& source, std::size_t count, const std::function<const Parameter&(std::size_t)>& slice,
                 Device& device, const SliceTarget& target);

// arena: flat, f32 or bf16; values are rounded to bf16 to nearest even. Waits for the stream. Throws what the source throws.
void load_weights(const WeightSource& source, const ParameterLayout& layout, Stream& stream, const Tensor& arena);

// Copies weights back: out = these elements of the tensor, f32, bf16 or f16, counted as if it had one dimension. Waits for the
// stream.
void copy_as_floats(Stream& stream, const Tensor& tensor, const Region& elements, float* out);

}  // namespace pipetrain
