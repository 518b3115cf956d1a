#include "tuning/layout_costs.hpp"

#include <algorithm>

namespace pipetrain {

using schedules::Placement;

const std::vector<std::vector<Block>>& LayoutCosts::blocks(const Layout& layout) {
  const int parts = layout.pp * layout.chunks;
  auto& found = blocks_[{parts, Again{layout.recompute, layout.recompute_layers}, layout.cut}];
  if (found.empty())
    found = layout.cut.empty()
                ? partition_blocks(request_.config, parts, request_.sequence, layout.numerics(request_.precision))
                : cut_blocks(request_.config, layout.cut, parts);
  return found;
}

const std::vector<PartCost>& LayoutCosts::parts(const Layout& layout) {
  auto& found = parts_[{layout.pp * layout.chunks, how(layout), layout.cut}];
  if (!found.empty()) return found;
  std::size_t first = 0;
  for (const auto& part : blocks(layout)) {
    found.push_back(cost_of_run(first, part, layout));
    first += part.size();
  }
  return found;
}

LayoutCosts::How LayoutCosts::how(const Layout& layout) const {
  return {layout.tp, layout.microbatch, Again{layout.recompute, layout.recompute_layers}, gathering(request_, layout),
          layout.ep};
}

const PartCost& LayoutCosts::cost_of_run(std::size_t first, const std::vector<Block>& blocks, const Layout& layout) {
  const auto key = std::tuple(how(layout), first, blocks.size());
  const auto found = runs_.find(key);
  return found != runs_.end() ? found->second : runs_.emplace(key, block_costs_.of(blocks, layout)).first->second;
}

std::vector<BlockSeconds> LayoutCosts::block_seconds(const Layout& layout) {
  Layout least = layout;
  if (layout.recompute_layers) least.recompute_layers = 0;
  const std::vector<Block> blocks = blocks_of(request_.config);
  std::vector<BlockSeconds> seconds(static_cast<std::size_t>(dealt_blocks(request_.config)));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const schedules::ChunkCost times = block_costs_.of({blocks[i]}, least).times;
    BlockSeconds& sum = seconds[std::min(i > 0 ? i - 1 : 0, seconds.size() - 1)];
    const double hidden = layout.braids() ? times.communication : 0;
    sum.forward += times.forward - hidden;
    sum.input_grad += times.input_grad - hidden;
    sum.weight_grad += times.weight_grad;
  }
  return seconds;
}

bool LayoutCosts::shares_sooner(const Layout& layout) const {
  return (layout.copies() - 1.0) / layout.copies() / links_.replicas(layout).rate < 1 / request_.speed.offload_rate;
}

HeldParameters LayoutCosts::held(const Layout& layout, const Placement& placement, int stage) {
  HeldParameters sum;
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const PartCost& part = parts(layout)[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))];
    sum.all += part.parameters;
    sum.trained += part.trained;
    sum.experts += part.experts;
    sum.leaving_gradients += part.leaving_gradients;
  }
  return sum;
}

std::vector<schedules::Link> LayoutCosts::edges(const Layout& layout) const {
  const double elements = tokens_of(request_, layout) * static_cast<double>(request_.config.hidden);
  std::vector<schedules::Link> edges;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const LinkSpeed link = links_.stages(layout, stage, (stage + 1) % layout.pp);
    edges.push_back({link.latency, link.rate, elements * activation_bytes(request_) / layout.tp});
  }
  return edges;
}

schedules::Costs LayoutCosts::of(const Layout& layout, const Placement& placement) {
  schedules::Costs costs;
  for (int stage = 0; stage < layout.pp; ++stage) {
    auto& row = costs.chunks.emplace_back();
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      const int v = placement.virtual_stage(stage, chunk);
      const PartCost& part = parts(layout)[static_cast<std::size_t>(v)];
      row.push_back(part.times);
      row.back().reduce_grads = end_.reduce_seconds(layout, part.trained, part.experts);
      if (layout.tp > 1) row.back().sum_replicated = 2.0 * (layout.tp - 1) * request_.speed.latency;
      if (request_.config.shares_table() && request_.config.trained.head && (v == 0 || v + 1 == placement.virtual_stages()))
        row.back().sum_tied = end_.tied_seconds(layout, placement);
    }
    const HeldParameters own = stepped(held(layout, placement, stage), layout);
    costs.norm.push_back(end_.norm_seconds(own));
    costs.optimizer.push_back(end_.optimizer_seconds(own));
  }
  costs.set_edges(placement, edges(layout));
  costs.verdict = 2 * links_.verdict().latency;
  return costs;
}

double LayoutCosts::bound(const Layout& layout, const Placement& placement) {
  const auto& costs = parts(layout);
  double bound = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    double compute = 0, first = 0;  // first: when the stage's first forward can begin
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      const PartCost& part = costs[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))];
      compute += part.compute() - (layout.braids() ? 2 * part.times.communication : 0);
    }
    const int before = request_.post_validation ? 0 : placement.virtual_stage(stage, 0);  // these may run in the previous step
    for (int v = 0; v < before; ++v) first += costs[static_cast<std::size_t>(v)].times.forward;
    const HeldParameters whole = held(layout, placement, stage), own = stepped(whole, layout);
    const double end =
        end_.reduce_seconds(layout, whole.trained, whole.experts) + end_.norm_seconds(own) + end_.optimizer_seconds(own);
    bound = std::max(bound, first + static_cast<double>(layout.microbatches) * compute + end);
  }
  return bound;
}

double LayoutCosts::most_state_bytes(const Layout& layout, const Placement& placement) {
  // The states and masters, the gradients, and the weights that operations read: each whole or divided.
  const Zero& zero = layout.zero;
  const auto kept = [&](bool divided, double bytes) { return divided ? bytes / layout.copies() : bytes; };
  const double masters = end_.rounded_bytes() > 0 ? sizeof(float) : 0;
  const double states = kept(zero.divides_states(), (1 - request_.offload.optimizer_share()) * (end_.state_bytes() + masters)),
               gradients = kept(zero.divides_grads(), gradient_bytes),
               operands = kept(zero.divides_weights(), request_.offload.parameters ? 0 : activation_bytes(request_));
  double most = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const HeldParameters whole = held(layout, placement, stage);
    most =
        std::max(most, whole.all * operands + whole.trained * states + (whole.trained - whole.leaving_gradients) * gradients);
  }
  return most;
}

}  // namespace pipetrain
