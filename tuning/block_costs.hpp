// Computes how long blocks of a model take for one microbatch, from their work and the devices' speeds.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model/parameters/parameters.hpp"
#include "schedules/simulate/cost.hpp"
#include "tuning/exchange_costs.hpp"
#include "tuning/host_links.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

// Gradients are fp32 in every precision.
constexpr double gradient_bytes = sizeof(float);

// Returns the bytes in which a number travels that takes `full` bytes without a code.
inline double coded_bytes(BlockCode code, double full) {
  const BlockFormat format = block_format(code);
  return code == BlockCode::none ? full
                                 : gradient_bytes * static_cast<double>(format.words) / static_cast<double>(format.elements);
}
inline double activation_bytes(const LayoutRequest& request) { return static_cast<double>(size_of(request.precision.compute)); }

// Returns the number of replicas that gather each block's weights from one another: with offloaded weights, at every
// stage of ZeRO that divides states.
inline int gathering(const LayoutRequest& request, const Layout& layout) {
  const bool divided = request.offload.parameters ? layout.zero.divides_states() : layout.zero.divides_weights();
  return divided ? layout.copies() : 1;
}

// Returns the tokens of a microbatch that one rank computes together with all tensor-parallel ranks of its stage.
double tokens_of(const LayoutRequest& request, const Layout& layout);

// Seconds of one virtual stage for one microbatch, and its permanent data.
struct PartCost {
  schedules::ChunkCost times;
  double parameters = 0;         // of one tensor-parallel rank
  double trained = 0;            // those of them that are not frozen
  double experts = 0;            // those of them that a rank has in place of all experts (ExpertPart)
  double leaving_gradients = 0;  // those of them whose gradients are offloaded
  double compute() const { return times.forward + times.input_grad + times.weight_grad; }
};

// Keeps the figures of blocks, so it is not thread-safe. The request and the links must outlive it.
class BlockCosts {
 public:
  BlockCosts(const LayoutRequest& request, const HostLinks& links)
      : request_(request), links_(links), exchanges_(request, links) {}

  // Returns the costs of consecutive blocks of one virtual stage.
  PartCost of(const std::vector<Block>& blocks, const Layout& layout) const;

 private:
  // The figures of a block that depend only on the model and the sequence.
  struct BlockFigures {
    double parameters = 0, trained = 0, experts = 0;  // experts: trained parameters of routed experts
    double flops = 0, weight_grad = 0;                // per token; weight_grad: of W alone
    std::array<double, 3> again = {};                 // FLOPs per token that recomputation repeats, by Recompute
  };
  const BlockFigures& figures(const Block& block) const;
  double again_seconds(const Block& block, const Layout& layout, Recompute recompute) const;
  // Seconds for rounding a block's activations, gradients and weights to 8 bits.
  struct Rounding {
    double forward = 0, input_grad = 0;
  };
  // Returns the operations of attention between positions, forward and backward, of one tensor-parallel rank.
  double attention_flops(const Block& block, const Layout& layout) const;
  // Seconds of the products with a block's weights.
  struct Products {
    double forward = 0, input_grad = 0, weight_grad = 0;
  };
  Products product_seconds(const Block& block, const Layout& layout) const;
  // Returns the seconds of experts' products together with what their weights, gradients and rows take from memory.
  Products with_memory(const Products& products, const Block& block, const Layout& layout) const;
  // Returns the rate of products with a block's weights, per second.
  double product_rate(const Block& block) const;
  Rounding rounding_seconds(const Block& block, const Layout& layout) const;
  Rounding expert_rounding_seconds(const Block& block, const Layout& layout) const;
  // The additional time of an attention block whose sequences ranks share; scores: seconds of its attention forward.
  struct Ring {
    double forward = 0, backward = 0;
  };
  Ring ring_seconds(const Block& block, const Layout& layout, double scores) const;
  // Returns the parameters of a block that one of the ranks which divide its experts has, on all tensor-parallel ranks.
  double own_parameters(const Block& block, const Layout& layout, double all) const {
    return all - figures(block).experts * (1 - 1.0 / layout.ep);
  }
  double gather_seconds(const Block& block, const Layout& layout) const;
  // Returns the number of a block's parameters whose gradients are offloaded.
  double leaving_gradients(const Block& block, const Layout& layout) const;

  const LayoutRequest& request_;
  const HostLinks& links_;
  const ExchangeCosts exchanges_;
  // By BlockKind and layer: a deep model has tens of thousands of blocks, and each layout asks for all of them.
  mutable std::array<std::vector<std::optional<BlockFigures>>, block_kinds> figures_;
};

}  // namespace pipetrain
