// Cuts of layouts: for the sizes of the fastest ones, the cut of every schedule and placement by itself.
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

// Whether a run of the layout can braid (schedule braided-v), and is known to have something to hide by it. Not on GPUs: their
// products hide part of the exchanges in every schedule, and what is left for braids has not been measured.
bool can_braid(const LayoutRequest& request, const Layout& layout);

class CutLayouts {
 public:
  // Told of each layout whose cut was found to be better than the cut by cost, or to fit where that does not.
  using Found = std::function<void(const Layout&, const WholeStep&)>;
  // References stay valid as long as this.
  CutLayouts(const LayoutRequest& request, LayoutCosts& costs, LayoutMemory& memory, Found found);

  // For the sizes (pp, tp, dp, microbatch) of these layouts, each once and in this order: the cut of every schedule by name,
  // with its usual chunks and the least recomputation with which some cut fits. Leaves out those that cannot be faster than
  // `limit` seconds, by cut_bound(). The stage of ZeRO is the layout's.
  void search_schedules(const std::vector<Layout>& layouts, const std::function<double()>& limit);
  // Of these layouts themselves, in this order, with their schedule or plan and from the cuts that they have; likewise. Leaves
  // out those whose activations leave the devices.
  void refine(const std::vector<Layout>& layouts, const std::function<double()>& limit);

  std::int64_t tried() const { return budget_.taken(); }
  bool left_out() const { return budget_.is_spent(); }

 private:
  // By stage, and where its chunks begin and how many blocks they have.
  using StageBytes = std::map<std::vector<std::int64_t>, double>;

  bool search_one(Layout layout, double limit);
  // What the fullest device lacks.
  double bytes_over(const Layout& layout, const WholeStep& step, StageBytes& known);
  void search_schedules_of(const Layout& sizes, const std::function<double()>& limit);

  const LayoutRequest& request_;
  LayoutCosts& costs_;
  LayoutMemory& memory_;
  Found found_;
  CutBudget budget_;
};

// What a step of this layout takes, with its cut, by these costs: schedules::simulate() with the slots that a run reserves.
schedules::Timeline simulated_step(const WholeStep& step, const schedules::Costs& costs);

// As CutProblem's: no cut and order of this layout on this placement is faster.
double bound_of_cuts(LayoutCosts& costs, const Layout& layout, const schedules::Placement& placement);

}  // namespace pipetrain
