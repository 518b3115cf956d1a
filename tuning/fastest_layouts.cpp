#include "tuning/fastest_layouts.hpp"

#include <algorithm>
#include <limits>

#include "actors/training/rank/transformer_compute.hpp"
#include "schedules/simulate/following_steps.hpp"
#include "schedules/simulate/simulate.hpp"
#include "tuning/cut_layouts.hpp"

namespace pipetrain {

namespace {

// The faster layout of such a pair is kept.
bool same_but_memory(const Layout& a, const Layout& b) {
  return same_sizes(a, b) && a.schedule == b.schedule && a.chunks == b.chunks && a.plan == b.plan;
}

struct StepTime {
  double seconds = 0, bubble = 0;
};

StepTime time_of(const LayoutRequest& request, const WholeStep& step, const schedules::Costs& costs) {
  if (!request.post_validation) {
    const auto summary = summarize(simulated_step(step, costs));
    return {summary.makespan, summary.bubble_fraction};
  }
  const auto steps = schedules::simulate_following(
      step.plan, costs, step.needs,
      {.early = stages_that_wait(step.plan, step.needs), .life = TransformerCompute::slot_life()});
  return {steps.step, steps.bubble};
}

}  // namespace

bool same_sizes(const Layout& a, const Layout& b) {
  return a.pp == b.pp && a.tp == b.tp && a.dp == b.dp && a.ep == b.ep && a.microbatch == b.microbatch;
}

bool FastestLayouts::judge(const Layout& layout, const WholeStep& step, std::optional<double> gap) {
  auto memory = memory_.of(layout, step.plan, step.needs);
  if (!memory) return false;
  const StepTime time = time_of(request_, step, costs_with_transfers(request_, layout, step.plan.placement, costs_, memory_));
  const auto is_as_good = [&](const RankedLayout& other) {
    return same_sizes(layout, other.layout) && other.seconds <= time.seconds * (1 + 1e-9);
  };
  if (layout.plan && std::any_of(best_.begin(), best_.end(), is_as_good)) return true;
  const auto twin =
      std::find_if(best_.begin(), best_.end(), [&](const RankedLayout& one) { return same_but_memory(layout, one.layout); });
  if (twin != best_.end()) {
    if (twin->seconds <= time.seconds) return true;
    best_.erase(twin);
  }
  const auto place = std::upper_bound(best_.begin(), best_.end(), time.seconds,
                                      [](double seconds, const RankedLayout& other) { return seconds < other.seconds; });
  RankedLayout ranked{layout, time.seconds, time.bubble, std::move(*memory), gap};
  if (request_.search_cuts && !layout.cut.empty()) compare_with_cost(step, ranked);
  best_.insert(place, std::move(ranked));
  if (best_.size() > count_) best_.pop_back();
  return true;
}

std::vector<Layout> FastestLayouts::layouts() const {
  std::vector<Layout> layouts;
  for (const RankedLayout& ranked : best_) layouts.push_back(ranked.layout);
  return layouts;
}

double FastestLayouts::limit() const {
  return best_.size() < count_ ? std::numeric_limits<double>::infinity() : best_.back().seconds;
}

// Offloaded activations are moved at the rate between a device and its host.
schedules::Costs costs_with_transfers(const LayoutRequest& request, const Layout& layout, const schedules::Placement& placement,
                                      LayoutCosts& of, LayoutMemory& memory) {
  schedules::Costs costs = of.of(layout, placement);
  if (layout.offloaded_activations == 0) return costs;
  const auto saved = memory.saved_bytes(layout, placement);
  for (std::size_t stage = 0; stage < saved.size(); ++stage)
    for (std::size_t chunk = 0; chunk < saved[stage].size(); ++chunk) {
      auto& cost = costs.chunks[stage][chunk];
      cost.offload = cost.reload = saved[stage][chunk] / request.speed.offload_rate;
    }
  return costs;
}

void FastestLayouts::compare_with_cost(const WholeStep& step, RankedLayout& ranked) {
  const schedules::Placement& placement = step.plan.placement;
  Layout by_cost = ranked.layout;
  by_cost.cut.clear();
  if (memory_.of(by_cost, step.plan, step.needs))
    ranked.seconds_by_cost = summarize(simulated_step(step, costs_.of(by_cost, placement))).makespan;
  ranked.cut_gap = std::max(0.0, 1 - bound_of_cuts(costs_, ranked.layout, placement) / ranked.seconds);
}

}  // namespace pipetrain
