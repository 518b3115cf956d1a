// Computes how long the parts of a layout take, from the model's work and the devices' speeds.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/parameters/parameters.hpp"
#include "schedules/simulate/cost.hpp"
#include "tuning/block_costs.hpp"
#include "tuning/host_links.hpp"
#include "tuning/layout_search.hpp"
#include "tuning/step_end_costs.hpp"

namespace pipetrain {

// Caches its results, so it is not thread-safe. The request must outlive it.
class LayoutCosts {
 public:
  explicit LayoutCosts(const LayoutRequest& request)
      : request_(request), links_(request), block_costs_(request, links_), end_(request, links_) {}
  LayoutCosts(const LayoutCosts&) = delete;
  LayoutCosts& operator=(const LayoutCosts&) = delete;

  // Returns the times of one microbatch in a single block.
  schedules::ChunkCost block_times(const Block& block, const Layout& layout) const {
    return block_costs_.of({block}, layout).times;
  }
  // Returns the times of each attention or MLP block without optional recomputation; the first includes the embedding, the last
  // the head.
  std::vector<BlockSeconds> block_seconds(const Layout& layout);
  // Both by virtual stage, with the layout's cut.
  const std::vector<std::vector<Block>>& blocks(const Layout& layout);
  const std::vector<PartCost>& parts(const Layout& layout);

  schedules::Costs of(const Layout& layout, const schedules::Placement& placement);
  // Returns a lower bound of the time of any run of the layout.
  double bound(const Layout& layout, const schedules::Placement& placement);
  // Returns a lower bound of the bytes of weights, gradients, moments and, in bf16, rounded weights on the stage that has most
  // of them.
  double most_state_bytes(const Layout& layout, const schedules::Placement& placement);
  // True when it is faster that each replica fetches its own part of offloaded weights and gathers the others' than
  // that each fetches all.
  bool shares_sooner(const Layout& layout) const;

 private:
  const PartCost& cost_of_run(std::size_t first, const std::vector<Block>& blocks, const Layout& layout);
  // Between neighbouring stages, then from the last to the first.
  std::vector<schedules::Link> edges(const Layout& layout) const;
  HeldParameters held(const Layout& layout, const schedules::Placement& placement, int stage);
  // Returns the parameters of the stage that one replica steps and counts.
  HeldParameters stepped(const HeldParameters& whole, const Layout& layout) const {
    return layout.zero.divides_states() ? whole.divided(layout.copies(), layout.expert_copies()) : whole;
  }

  const LayoutRequest& request_;
  HostLinks links_;
  BlockCosts block_costs_;
  StepEndCosts end_;
  // The kind of recomputation, and the number of layers.
  using Again = std::pair<Recompute, std::optional<std::int64_t>>;
  std::map<std::tuple<int, Again, Cut>, std::vector<std::vector<Block>>> blocks_;
  // By tp, microbatch, recomputation, the replicas that gather weights, and ep.
  using How = std::tuple<int, std::int64_t, Again, int, int>;
  How how(const Layout& layout) const;
  std::map<std::tuple<int, How, Cut>, std::vector<PartCost>> parts_;  // by number of parts, settings and cut
  // Costs of consecutive blocks, by the index of the first one and their number: most cuts share them.
  std::map<std::tuple<How, std::size_t, std::size_t>, PartCost> runs_;
};

}  // namespace pipetrain
