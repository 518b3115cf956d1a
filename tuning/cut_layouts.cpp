#include "tuning/cut_layouts.hpp"

#include <algorithm>
#include <utility>

#include "actors/training/job/combinations.hpp"
#include "actors/training/rank/transformer_compute.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"
#include "tuning/fastest_layouts.hpp"
#include "tuning/layout_variants.hpp"

namespace pipetrain {

using schedules::Plan;

namespace {

Plan compute_of(const Layout& layout) {
  if (layout.plan) return *layout.plan;
  return schedules::build_schedule(layout.schedule, {layout.pp, layout.chunks, static_cast<int>(layout.microbatches)});
}

}  // namespace

schedules::Timeline simulated_step(const WholeStep& step, const schedules::Costs& costs) {
  schedules::SimulationOptions how;
  how.life = TransformerCompute::slot_life();
  return schedules::simulate(step.plan, costs, step.needs, how);
}

double bound_of_cuts(LayoutCosts& costs, const Layout& layout, const schedules::Placement& placement) {
  CutProblem problem;
  problem.placement = placement;
  problem.microbatches = layout.microbatches;
  problem.blocks = costs.block_seconds(layout);
  return cut_bound(problem);
}

bool can_braid(const LayoutRequest& request, const Layout& layout) {
  if (request.post_validation) return false;  // braids over several steps are not simulated
  const bool on_gpus = request.device == DeviceKind::cuda;
  if (layout.ep == 1 && (layout.tp == 1 || on_gpus)) return false;
  if (on_gpus && request.hosts == 1) return false;
  UsedFeatures used = features_of(request);
  used.add(Feature::exchanging_braids, "schedule", layout.schedule);
  return find_refused(used) == nullptr;
}

CutLayouts::CutLayouts(const LayoutRequest& request, LayoutCosts& costs, LayoutMemory& memory, Found found)
    : request_(request), costs_(costs), memory_(memory), found_(std::move(found)), budget_(*request.search_cuts) {}

void CutLayouts::search_schedules(const std::vector<Layout>& layouts, const std::function<double()>& limit) {
  for (auto layout = layouts.begin(); layout != layouts.end(); ++layout) {
    const auto is_twin = [&](const Layout& other) { return same_sizes(*layout, other); };
    if (layout->pp > 1 && std::none_of(layouts.begin(), layout, is_twin)) search_schedules_of(*layout, limit);
  }
}

void CutLayouts::refine(const std::vector<Layout>& layouts, const std::function<double()>& limit) {
  for (const Layout& layout : layouts)
    if (layout.pp > 1 && layout.offloaded_activations == 0 && !budget_.is_spent()) search_one(layout, limit());
}

void CutLayouts::search_schedules_of(const Layout& sizes, const std::function<double()>& limit) {
  const std::vector<Recompute> modes = LayoutVariants(request_, costs_).modes();
  for (const schedules::ScheduleInfo& info : schedules::all_schedules()) {
    if (info.uses_costs || sizes.pp * info.default_chunks > 2 * request_.config.layers) continue;
    if (info.braids && !can_braid(request_, sizes)) continue;
    Layout layout = sizes;
    if (info.braids && layout.zero.divides_weights()) layout.zero.stage = 2;
    layout.schedule = info.name;
    layout.chunks = info.default_chunks;
    layout.plan = nullptr;
    layout.cut.clear();
    layout.offloaded_activations = 0;
    layout.recompute_layers = request_.recompute_layers;
    for (const Recompute mode : modes) {
      layout.recompute = mode;
      if (budget_.is_spent()) return;
      if (search_one(layout, limit())) break;
    }
  }
}

// A stage's bytes depend on the blocks that it holds, which most cuts do not change.
double CutLayouts::bytes_over(const Layout& layout, const WholeStep& step, StageBytes& known) {
  const auto& placement = step.plan.placement;
  std::vector<std::int64_t> begins{0};
  for (const std::int64_t blocks : layout.cut) begins.push_back(begins.back() + blocks);
  double over = 0;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    std::vector<std::int64_t> key{stage};
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      const auto v = static_cast<std::size_t>(placement.virtual_stage(stage, chunk));
      key.push_back(begins[v]);
      key.push_back(layout.cut[v]);
    }
    auto found = known.find(key);
    if (found == known.end())
      found = known.emplace(key, memory_.of_stage(layout, step.plan, step.needs[static_cast<std::size_t>(stage)], stage)).first;
    over = std::max(over, found->second - request_.speed.memory_bytes);
  }
  return over;
}

// Returns true when some cut fits, or none could be fast enough.
bool CutLayouts::search_one(Layout layout, double limit) {
  const WholeStep step = whole_step(request_, layout, compute_of(layout));
  const auto& placement = step.plan.placement;
  CutProblem problem;
  problem.placement = placement;
  problem.microbatches = layout.microbatches;
  problem.blocks = costs_.block_seconds(layout);
  if (cut_bound(problem) >= limit) return true;
  problem.step_seconds = [&](const Cut& cut) {
    layout.cut = cut;
    return summarize(simulated_step(step, costs_.of(layout, placement))).makespan;
  };
  StageBytes bytes;
  problem.bytes_over = [&](const Cut& cut) {
    layout.cut = cut;
    return bytes_over(layout, step, bytes);
  };
  const Cut start = cut_of(costs_.blocks(layout));
  const bool by_cost = layout.cut.empty();
  const FoundCut found = search_cut(problem, start, budget_);
  if (!found.fits) return false;
  if (found.cut == start && by_cost) return true;
  layout.cut = found.cut;
  found_(layout, step);
  return true;
}

}  // namespace pipetrain
