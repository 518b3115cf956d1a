// Searches cuts for the sizes of the fastest layouts, separately for every schedule and placement.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "schedules/simulate/cost.hpp"
#include "schedules/simulate/timeline.hpp"
#include "tuning/cut_search.hpp"
#include "tuning/layout_costs.hpp"
#include "tuning/layout_memory.hpp"
#include "tuning/whole_step.hpp"

namespace pipetrain {

// True when a run of the layout can braid (schedule braided-v) and can gain by that. GPUs gain by it only where the ranks that
// divide experts are on several hosts (see ExchangeCosts); products hide the exchanges of tp in every schedule.
bool can_braid(const LayoutRequest& request, const Layout& layout);

class CutLayouts {
 public:
  // Called for each layout whose cut was found to be better than the cut by cost, or to fit where that does not.
  using Found = std::function<void(const Layout&, const WholeStep&)>;
  // The references must stay valid as long as this object.
  CutLayouts(const LayoutRequest& request, LayoutCosts& costs, LayoutMemory& memory, Found found);

  // For the sizes (pp, tp, dp, microbatch) of these layouts, each once and in this order: searches the cut of every
  // schedule by name, with its usual chunks and the least recomputation with which some cut fits. Leaves out those that
  // cannot be faster than `limit` seconds, by cut_bound(). Keeps the layout's stage of ZeRO.
  void search_schedules(const std::vector<Layout>& layouts, const std::function<double()>& limit);
  // Searches cuts of these layouts themselves, in this order, with their schedule or plan, starting from their own
  // cuts. Leaves out those that cannot be faster than `limit` seconds, and those that offload activations.
  void refine(const std::vector<Layout>& layouts, const std::function<double()>& limit);

  std::int64_t tried() const { return budget_.taken(); }
  bool left_out() const { return budget_.is_spent(); }

 private:
  // Key: the stage, and for each of its chunks the first block and the number of blocks.
  using StageBytes = std::map<std::vector<std::int64_t>, double>;

  bool search_one(Layout layout, double limit);
  // Returns the bytes that the fullest device lacks.
  double bytes_over(const Layout& layout, const WholeStep& step, StageBytes& known);
  void search_schedules_of(const Layout& sizes, const std::function<double()>& limit);

  const LayoutRequest& request_;
  LayoutCosts& costs_;
  LayoutMemory& memory_;
  Found found_;
  CutBudget budget_;
};

// Simulates a step of this layout, with its cut, by these costs: schedules::simulate() with the slots that a run reserves.
schedules::Timeline simulated_step(const WholeStep& step, const schedules::Costs& costs);

// See CutProblem: no cut and order of this layout on this placement is faster.
double bound_of_cuts(LayoutCosts& costs, const Layout& layout, const schedules::Placement& placement);

}  // namespace pipetrain
