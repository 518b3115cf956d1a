// Computes how long the parts of a layout take, from the model's work and the devices' speeds.
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
#include "tuning/optimizer_costs.hpp"

namespace pipetrain {

// Seconds of one virtual stage for one microbatch, and its permanent data.
struct PartCost {
  schedules::ChunkCost times;
  double parameters = 0;         // of one tensor-parallel rank
  double trained = 0;            // those of them that are not frozen
  double experts = 0;            // those of them that a rank has in place of all experts (ExpertPart)
  double leaving_gradients = 0;  // those of them whose gradients are offloaded
  double compute() const { return times.forward + times.input_grad + times.weight_grad; }
};

// The parameters of one tensor-parallel rank of a stage.
struct HeldParameters {
  double all = 0, trained = 0, experts = 0, leaving_gradients = 0;  // experts: see PartCost
  // Returns the share of one of `parts` ranks, of which every `experts_over` have the same experts.
  HeldParameters divided(double parts, double experts_over) const {
    const double own_experts = experts / experts_over;
    return {all / parts, (trained - experts) / parts + own_experts, own_experts, leaving_gradients / parts};
  }
};

// Seconds for rounding a block's activations, gradients and weights to 8 bits.
struct Rounding {
  double forward = 0, input_grad = 0;
};

// Caches its results, so it is not thread-safe. The request must outlive it.
class LayoutCosts {
 public:
  explicit LayoutCosts(const LayoutRequest& request) : request_(request), links_(request) {}

  // Returns the times of one microbatch in a single block.
  schedules::ChunkCost block_times(const Block& block, const Layout& layout) const { return cost_of({block}, layout).times; }
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
  // The figures of a block that depend only on the model and the sequence.
  struct BlockFigures {
    double parameters = 0, trained = 0, experts = 0;  // experts: trained parameters of routed experts
    double flops = 0, weight_grad = 0;                // per token; weight_grad: of W alone
    std::array<double, 3> again = {};                 // FLOPs per token that recomputation repeats, by Recompute
  };
  const BlockFigures& figures(const Block& block) const;
  double again_seconds(const Block& block, const Layout& layout, Recompute recompute) const;
  PartCost cost_of(const std::vector<Block>& blocks, const Layout& layout) const;
  const PartCost& cost_of_run(std::size_t first, const std::vector<Block>& blocks, const Layout& layout);
  // Returns the rate of products with a block's weights, per second.
  double product_rate(const Block& block) const;
  Rounding rounding_seconds(const Block& block, const Layout& layout) const;
  // The additional time of an attention block whose sequences ranks share; scores: seconds of its attention forward.
  struct Ring {
    double forward = 0, backward = 0;
  };
  Ring ring_seconds(const Block& block, const Layout& layout, double scores) const;
  // Returns the seconds in which a routed block's tokens travel to their experts and back, in F and again in I.
  double expert_exchange_seconds(const Block& block, const Layout& layout) const;
  // Returns the parameters of a block that one of the ranks which divide its experts has, on all tensor-parallel ranks.
  double own_parameters(const Block& block, const Layout& layout, double all) const {
    return all - figures(block).experts * (1 - 1.0 / layout.ep);
  }
  double gather_seconds(const Block& block, const Layout& layout) const;
  // Returns the number of a block's parameters whose gradients are offloaded.
  double leaving_gradients(const Block& block, const Layout& layout) const;
  // Between neighbouring stages, then from the last to the first.
  std::vector<schedules::Link> edges(const Layout& layout) const;
  HeldParameters held(const Layout& layout, const schedules::Placement& placement, int stage);
  double reduce_seconds(const Layout& layout, double trained, double experts) const;
  double tied_seconds(const Layout& layout, const schedules::Placement& placement) const;
  double norm_seconds(const HeldParameters& own) const;
  double optimizer_seconds(const HeldParameters& own) const;

  const LayoutRequest& request_;
  HostLinks links_;
  OptimizerCosts optimizer_ = optimizer_costs(request_.optimizer, request_.config);
  // By BlockKind and layer: a deep model has tens of thousands of blocks, and each layout asks for all of them.
  mutable std::array<std::vector<std::optional<BlockFigures>>, block_kinds> figures_;
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
