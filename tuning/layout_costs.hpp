// How long the parts of a layout take, from what the model computes and what the devices can do.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/parameters/parameters.hpp"
#include "schedules/simulate/cost.hpp"
#include "tuning/host_links.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

// Seconds of one virtual stage for one microbatch, and what it holds for good.
struct PartCost {
  schedules::ChunkCost times;
  double parameters = 0;         // of one tensor-parallel rank
  double leaving_gradients = 0;  // how many of them have gradients that are offloaded
  double compute() const { return times.forward + times.input_grad + times.weight_grad; }
};

// Parameters of one tensor-parallel rank of a stage.
struct HeldParameters {
  double all = 0, leaving_gradients = 0;
  HeldParameters divided(double parts) const { return {all / parts, leaving_gradients / parts}; }
};

// Seconds that a block's activations, gradients and weights take to be rounded to 8 bits.
struct Rounding {
  double forward = 0, input_grad = 0;
};

// Caches what it computes: not thread-safe, and valid as long as its request.
class LayoutCosts {
 public:
  explicit LayoutCosts(const LayoutRequest& request) : request_(request), links_(request) {}

  // Of one microbatch through a block by itself.
  schedules::ChunkCost block_times(const Block& block, const Layout& layout) const { return cost_of({block}, layout).times; }
  // Of each attention or MLP block, the embedding with the first and the head with the last, if no layer recomputes that need
  // not.
  std::vector<BlockSeconds> block_seconds(const Layout& layout);
  // Both by virtual stage, as the layout is cut.
  const std::vector<std::vector<Block>>& blocks(const Layout& layout);
  const std::vector<PartCost>& parts(const Layout& layout);

  schedules::Costs of(const Layout& layout, const schedules::Placement& placement);
  // A lower bound of the time that any run of the layout takes.
  double bound(const Layout& layout, const schedules::Placement& placement);
  // Weights, gradients, moments and, in bf16, the rounded weights, of the stage that has most of them: at least so many.
  double most_state_bytes(const Layout& layout, const schedules::Placement& placement);
  // Whether replicas have offloaded weights sooner when each brings its own part and gathers the others' than when each brings
  // all of them.
  bool shares_sooner(const Layout& layout) const;

 private:
  // What of a block depends on the model and the sequence alone.
  struct BlockFigures {
    double parameters = 0;
    double flops = 0;                  // per token
    std::array<double, 3> again = {};  // the same of what is computed again, by Recompute
  };
  const BlockFigures& figures(const Block& block) const;
  double again_seconds(const Block& block, const Layout& layout, Recompute recompute) const;
  PartCost cost_of(const std::vector<Block>& blocks, const Layout& layout) const;
  const PartCost& cost_of_run(std::size_t first, const std::vector<Block>& blocks, const Layout& layout);
  // Of products with a block's weights, per second.
  double product_rate(const Block& block) const;
  Rounding rounding_seconds(const Block& block, const Layout& layout) const;
  // What ranks that share sequences add to an attention block; scores: seconds of its attention forward.
  struct Ring {
    double forward = 0, backward = 0;
  };
  Ring ring_seconds(const Block& block, const Layout& layout, double scores) const;
  double gather_seconds(const Block& block, const Layout& layout) const;
  // How many of a block's parameters have gradients that are offloaded.
  double leaving_gradients(const Block& block, const Layout& layout) const;
  // Between neighbouring stages, then from the last to the first.
  std::vector<schedules::Link> edges(const Layout& layout) const;
  HeldParameters held(const Layout& layout, const schedules::Placement& placement, int stage);
  double reduce_seconds(const Layout& layout, double parameters) const;
  double tied_seconds(const Layout& layout, const schedules::Placement& placement) const;
  double norm_seconds(const HeldParameters& own) const;
  double optimizer_seconds(const HeldParameters& own) const;

  const LayoutRequest& request_;
  HostLinks links_;
  // By BlockKind and layer: a deep model has tens of thousands of blocks, and each layout asks for all of them.
  mutable std::array<std::vector<std::optional<BlockFigures>>, 4> figures_;
  // How much is computed again: what, and in how many layers.
  using Again = std::pair<Recompute, std::optional<std::int64_t>>;
  std::map<std::tuple<int, Again, Cut>, std::vector<std::vector<Block>>> blocks_;
  // By tp, microbatch, what is computed again, and the replicas that gather weights.
  using How = std::tuple<int, std::int64_t, Again, int>;
  How how(const Layout& layout) const;
  std::map<std::tuple<int, How, Cut>, std::vector<PartCost>> parts_;  // by their number, and how the model is cut
  // Of runs of blocks, by the first one's place in the model and their number: cuts have most of them in common.
  std::map<std::tuple<How, std::size_t, std::size_t>, PartCost> runs_;
};

}  // namespace pipetrain
