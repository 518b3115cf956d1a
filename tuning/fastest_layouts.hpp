// Keeps the fastest of the layouts that fit.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tuning/layout_costs.hpp"
#include "tuning/layout_memory.hpp"
#include "tuning/layout_search.hpp"
#include "tuning/whole_step.hpp"

namespace pipetrain {

// The references must stay valid as long as this object.
class FastestLayouts {
 public:
  FastestLayouts(const LayoutRequest& request, LayoutCosts& costs, LayoutMemory& memory, int count)
      : request_(request), costs_(costs), memory_(memory), count_(static_cast<std::size_t>(count)) {}

  // Returns true when the layout fits; it is then simulated, and kept if it is among the fastest. `gap` is the solver's.
  bool judge(const Layout& layout, const WholeStep& step, std::optional<double> gap = {});

  std::vector<Layout> layouts() const;  // the fastest first
  // Returns the seconds that a layout must stay below to be kept.
  double limit() const;
  std::vector<RankedLayout> take() { return std::move(best_); }

 private:
  void compare_with_cost(const WholeStep& step, RankedLayout& ranked);

  const LayoutRequest& request_;
  LayoutCosts& costs_;
  LayoutMemory& memory_;
  std::size_t count_;
  std::vector<RankedLayout> best_;
};

// Returns the costs of a layout, with the time in which its offloaded activations move.
schedules::Costs costs_with_transfers(const LayoutRequest& request, const Layout& layout, const schedules::Placement& placement,
                                      LayoutCosts& costs, LayoutMemory& memory);

// True when they have the same pp, tp, dp and microbatch.
bool same_sizes(const Layout& a, const Layout& b);

}  // namespace pipetrain
