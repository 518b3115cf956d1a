#include "model/parameters/whole_tensors.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// True when the slice continues the tensor in the arenas.
bool continues_tensor(const Parameter& tensor, std::int64_t held, const Parameter& slice) {
  const auto before = static_cast<std::size_t>(held);
  return slice.name == tensor.name && slice.offset == tensor.offset + before && slice.grad_offset == tensor.grad_offset + before;
}

[[noreturn]] void refuse_partial_tensor(const Parameter& tensor) {
  throw Error(ErrorKind::unavailable,
              fmt::format("the optimizer steps whole tensors, and {} is stored in parts; use the optimizer adamw", tensor.name));
}

}  // namespace

std::vector<WholeTensor> whole_tensors(const ParameterLayout& layout) {
  std::vector<WholeTensor> tensors;
  const auto& slices = layout.parameters;
  for (std::size_t i = 0; i < slices.size();) {
    WholeTensor whole{slices[i], i};
    std::int64_t held = 0;
    for (; i < slices.size() && (held == 0 || continues_tensor(slices[whole.first_slice], held, slices[i])); ++i) {
      // Slices are stored one below the other, so they must be rows of the stored matrix.
      if (slices[i].split_axis >= 0 && slices[i].split_axis != (slices[i].transposed ? 1 : 0)) refuse_partial_tensor(slices[i]);
      held += slices[i].local.elements();
      if (held >= whole.parameter.full.elements()) {
        ++i;
        break;
      }
    }
    Parameter& all = whole.parameter;
    if (held != all.full.elements()) refuse_partial_tensor(all);
    all.local = all.transposed ? Shape{all.full[1], all.full[0]} : all.full;
    all.split_axis = -1;
    all.begin = 0;
    tensors.push_back(std::move(whole));
  }
  return tensors;
}

}  // namespace pipetrain
