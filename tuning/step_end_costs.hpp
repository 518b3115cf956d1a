// Computes how long the end of a step takes: sums of gradients over replicas and tied weights, the norm and the optimizer.
#pragma once

#include "tuning/block_costs.hpp"
#include "tuning/optimizer_costs.hpp"

namespace pipetrain {

// The parameters of one tensor-parallel rank of a stage.
struct HeldParameters {
  double all = 0, trained = 0, experts = 0, leaving_gradients = 0;  // experts: see PartCost
  // Returns the share of one of `parts` ranks, of which every `experts_over` have the same experts.
  HeldParameters divided(double parts, double experts_over) const {
    const double own_experts = experts / experts_over;
    return {all / parts, (trained - experts) / parts + own_experts, own_experts, leaving_gradients / parts};
  }
};

// The request and the links must outlive it.
class StepEndCosts {
 public:
  StepEndCosts(const LayoutRequest& request, const HostLinks& links) : request_(request), links_(links) {}

  // trained, experts: the parameters of a virtual stage, as in PartCost.
  double reduce_seconds(const Layout& layout, double trained, double experts) const;
  double tied_seconds(const Layout& layout, const schedules::Placement& placement) const;
  // own: the parameters that the rank steps and counts, see stepped().
  double norm_seconds(const HeldParameters& own) const;
  double optimizer_seconds(const HeldParameters& own) const;

  // Returns the bytes of a parameter's rounded weight, which bf16 keeps in addition to the one that the optimizer updates.
  double rounded_bytes() const;
  // Returns the bytes of the optimizer's states for a parameter.
  double state_bytes() const { return optimizer_.state_bytes; }

 private:
  double reduce_by_hosts(const Compression& compression, const Layout& layout, double trained) const;
  double coding_seconds(const Compression& compression, double coded, int parties) const;

  const LayoutRequest& request_;
  const HostLinks& links_;
  OptimizerCosts optimizer_ = optimizer_costs(request_.optimizer, request_.config);
};

}  // namespace pipetrain
