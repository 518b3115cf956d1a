#include "tuning/optimizer_costs.hpp"

#include <algorithm>
#include <variant>

#include "model/config/tensor_spec.hpp"
#include "model/optimizer/optimizer.hpp"

namespace pipetrain {
namespace {

struct ProductFlops {
  double rows, columns, rank;  // rank: of a projection

  // Each of five iterations multiplies the matrix with itself, the square that this gives with itself, and that with the
  // matrix.
  double operator()(const Muon&) const {
    const double side = std::min(rows, columns), other = std::max(rows, columns);
    return 5 * (4 * side * side * other + 2 * side * side * side);
  }
  // The gradient is projected, and the step projected back. The projection is computed too seldom to count.
  double operator()(const GaLore&) const { return 4 * rows * columns * rank; }
  template <class Rule>
  double operator()(const Rule&) const {
    return 0;
  }
};

double step_flops(const Optimizer& optimizer, const OptimizerSettings& settings, const SteppedTensor& tensor) {
  if (optimizer.granularity() != Granularity::matrix || !tensor.is_matrix()) return 0;
  const auto rule = optimizer.tensor_rule({}, tensor);
  if (!rule) return 0;
  const auto rows = static_cast<double>(tensor.shape[0]), columns = static_cast<double>(tensor.shape[1]);
  return std::visit(ProductFlops{rows, columns, std::min({static_cast<double>(settings.galore_rank), rows, columns})}, *rule);
}

}  // namespace

OptimizerCosts optimizer_costs(const OptimizerSettings& settings, const ModelConfig& config) {
  const auto optimizer = make_optimizer(settings);
  OptimizerCosts sums;
  double elements = 0;
  for (const BlockCount& one : block_counts(config)) {
    const auto blocks = static_cast<double>(one.blocks);
    for (const TensorSpec& tensor : block_tensors(config, one.block)) {
      if (!is_trained(tensor.group) || tensor.tied_copy) continue;
      // A tensor that holds several parts is listed once for each.
      const double share = static_cast<double>(tensor.part.span) / tensor.part.count;
      sums.state_bytes += blocks * share * optimizer->state_bytes(stepped_tensor(tensor));
      sums.flops += blocks * share * step_flops(*optimizer, settings, stepped_tensor(tensor));
      elements += blocks * static_cast<double>(tensor.elements());
    }
  }
  return elements > 0 ? OptimizerCosts{sums.state_bytes / elements, sums.flops / elements} : OptimizerCosts{};
}

}  // namespace pipetrain
