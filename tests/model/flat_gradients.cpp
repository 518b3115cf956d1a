#include "model/flat_gradients.hpp"

#include "model/parameters/arena_views.hpp"

namespace pipetrain::test {

GradientPlaces gradients_in(const ParameterLayout& layout, const Tensor& arena) {
  GradientPlaces places;
  for (const BlockParameters& block : layout.blocks) {
    auto& tensors = places.blocks.emplace_back();
    for (const StoredTensor& tensor : block.tensors) {
      const auto elements = static_cast<std::size_t>(tensor.shape.elements());
      tensors.push_back(span(arena, tensor.grad_offset, elements).reshaped(tensor.shape));
    }
  }
  for (const Region& region : layout.zeroed_grads) places.zeroed.push_back({span(arena, region.begin, region.size())});
  return places;
}

}  // namespace pipetrain::test
