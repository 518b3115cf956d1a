#include "ops/tensor_update.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

std::int64_t scratch_of_rule(const Muon&, const Shape& shape) {
  const std::int64_t side = std::min(shape[0], shape[1]);
  return 2 * (shape.elements() + side * side);
}
std::int64_t scratch_of_rule(const GaLore&, const Shape& shape) { return 2 * shape.elements(); }
template <class Rule>
std::int64_t scratch_of_rule(const Rule&, const Shape& shape) {
  return shape.elements();
}

}  // namespace

std::size_t tensor_scratch(const TensorRule& rule, const Shape& shape) {
  return static_cast<std::size_t>(std::visit([&](const auto& own) { return scratch_of_rule(own, shape); }, rule));
}

}  // namespace pipetrain
