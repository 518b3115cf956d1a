// The ways to recompute and to divide state that a layout may use.
#pragma once

#include <vector>

#include "tuning/layout_costs.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

// Of every layout of one request. References stay valid as long as this.
class LayoutVariants {
 public:
  LayoutVariants(const LayoutRequest& request, const LayoutCosts& costs) : request_(request), costs_(costs) {}

  // The least first: a layout that fits gains nothing from recomputing more.
  std::vector<Recompute> modes() const;
  // Stages of ZeRO, the fastest first.
  std::vector<int> zeros(const Layout& layout) const;
  // The layout with one of both.
  Layout with(Layout layout, Recompute mode, int zero) const;
  // The layout with each of both.
  std::vector<Layout> all(const Layout& layout) const;

 private:
  const LayoutRequest& request_;
  const LayoutCosts& costs_;
};

// Whether auto may cut its stages in two.
bool can_halve(const LayoutRequest& request, const Layout& layout);

}  // namespace pipetrain
