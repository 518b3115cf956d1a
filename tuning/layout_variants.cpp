#include "tuning/layout_variants.hpp"

#include <iterator>

#include "model/config/mode_names.hpp"

namespace pipetrain {

std::vector<Recompute> LayoutVariants::modes() const {
  if (request_.recompute) return {*request_.recompute};
  return {std::begin(recompute_modes), std::end(recompute_modes)};
}

// By these costs, stage 1 never takes longer than 0, 2 as long as 1, and 3 gathers in addition. 1 and 2 also gather
// offloaded weights.
std::vector<int> LayoutVariants::zeros(const Layout& layout) const {
  if (layout.copies() == 1 || request_.post_validation) return {0};
  if (request_.zero) return {*request_.zero};
  if (request_.compression.weights != BlockCode::none) return weights_in_code();
  if (request_.compression.gradients == BlockCode::sign) return {0};
  if (request_.compression.gradients != BlockCode::none)
    return {0, 1};  // either the sums return in few bits, or the weights in full
  if (request_.offload.parameters && !costs_.shares_sooner(layout)) return {0, 1, 2, 3};
  if (layout.braids()) return {1, 2};  // a braid's actions would need gathered weights at the same time
  return {1, 2, 3};
}

// Compressed gradients go with stage 1 alone of those that divide weights.
std::vector<int> LayoutVariants::weights_in_code() const {
  const bool rounds = request_.precision.rounds_weights(), sums = request_.compression.gradients != BlockCode::none;
  if (sums) return {1};
  return rounds ? std::vector<int>{1, 2, 3} : std::vector<int>{3};
}

Layout LayoutVariants::with(Layout layout, Recompute mode, int zero) const {
  layout.recompute = mode;
  layout.recompute_layers = request_.recompute_layers;
  layout.zero.stage = zero;
  return layout;
}

std::vector<Layout> LayoutVariants::all(const Layout& layout) const {
  std::vector<Layout> variants;
  for (const Recompute mode : modes())
    for (const int zero : zeros(layout)) variants.push_back(with(layout, mode, zero));
  return variants;
}

bool can_halve(const LayoutRequest& request, const Layout& layout) {
  return request.cut.empty() && 2 * layout.pp <= 2 * request.config.layers;
}

}  // namespace pipetrain
