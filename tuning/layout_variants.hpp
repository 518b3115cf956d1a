// The ways to recompute and to divide state that a layout may use.
#pragma once

#include <vector>

#include "tuning/layout_costs.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

// Covers every layout of one request. The references must stay valid as long as this object.
class LayoutVariants {
 public:
  LayoutVariants(const LayoutRequest& request, const LayoutCosts& costs) : request_(request), costs_(costs) {}

  // Returns the least first, because a layout that fits gains nothing from more recomputation.
  std::vector<Recompute> modes() const;
  // Stages of ZeRO, the fastest first.
  std::vector<int> zeros(const Layout& layout) const;
  // Returns the layout with one of both.
  Layout with(Layout layout, Recompute mode, int zero) const;
  // Returns the layout with each of both.
  std::vector<Layout> all(const Layout& layout) const;

 private:
  std::vector<int> weights_in_code() const;

  const LayoutRequest& request_;
  const LayoutCosts& costs_;
};

// True when auto may give each stage two chunks.
bool can_halve(const LayoutRequest& request, const Layout& layout);

}  // namespace pipetrain
