#include "model/parameters/whole_tensors.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// True when the slice continues the tensor in the arenas.
bool continues_tensor(const WholeTensor& tensor, const Parameter& slice) {
  const Parameter& first = tensor.parameter;
  return slice.name == first.name && slice.offset == first.offset + tensor.held &&
         slice.grad_offset == first.grad_offset + tensor.held;
}

// Slices are stored one below the other, so they make one matrix if they are rows of the stored one.
bool are_rows(const Parameter& slice) { return slice.split_axis < 0 || slice.split_axis == (slice.transposed ? 1 : 0); }

}  // namespace

std::vector<WholeTensor> whole_tensors(const ParameterLayout& layout) {
  std::vector<WholeTensor> tensors;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& slice = layout.parameters[i];
    const auto elements = static_cast<std::size_t>(slice.local.elements());
    const auto all = static_cast<std::size_t>(slice.full.elements());
    if (!tensors.empty() && tensors.back().held < all && continues_tensor(tensors.back(), slice)) {
      ++tensors.back().slices;
    } else {
      tensors.push_back({slice, i, 1, 0, false});
    }
    WholeTensor& tensor = tensors.back();
    tensor.held += elements;
    tensor.is_split = tensor.held < all || slice.copies > 1;
    if (tensor.held == all && tensor.slices > 1 && !are_rows(slice))
      throw Error(
          ErrorKind::unavailable,
          fmt::format("the optimizer steps whole tensors, and {} is not stored as one; use the optimizer adamw", slice.name));
  }
  for (WholeTensor& tensor : tensors) {
    Parameter& parameter = tensor.parameter;
    parameter.local = parameter.transposed ? Shape{parameter.full[1], parameter.full[0]} : parameter.full;
    parameter.split_axis = -1;
    parameter.begin = 0;
    parameter.copies = 1;
    parameter.copy = 0;
  }
  return tensors;
}

}  // namespace pipetrain
