#include "tuning/layout_costs.hpp"

#include <algorithm>

#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

using schedules::Placement;

namespace {

// Returns the bytes of the optimizer's states for each weight.
double state_bytes(const LayoutRequest& request) {
  return static_cast<double>(make_optimizer(request.optimizer)->states().size() * sizeof(float));
}

// bf16 keeps rounded weights in addition to those that the optimizer updates.
double rounded_bytes(const LayoutRequest& request) {
  return request.precision.rounds_weights() ? static_cast<double>(size_of(request.precision.compute)) : 0;
}

// Returns the number of replicas that step and count separate parts.
int sharing(const Layout& layout) { return layout.zero.divides_states() ? layout.copies() : 1; }

}  // namespace

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
  return {layout.tp, layout.microbatch, Again{layout.recompute, layout.recompute_layers}, gathering_replicas(request_, layout)};
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
  std::vector<BlockSeconds> seconds(blocks.size() - 2);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const schedules::ChunkCost times = block_costs_.of({blocks[i]}, least).times;
    BlockSeconds& sum = seconds[std::min(i > 0 ? i - 1 : 0, seconds.size() - 1)];
    const double hidden = layout.braids() ? times.tp_communication : 0;
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
    sum.leaving_gradients += part.leaving_gradients;
  }
  return sum;
}

// A ring sends everything twice, except the rank's own part.
double LayoutCosts::reduce_seconds(const Layout& layout, double parameters) const {
  const int copies = layout.copies();
  if (copies == 1) return 0;
  // Gradients go to their owners, and return as sums or as new weights. With stage 3, the weights return when the next step
  // first gathers them, and no compute precedes that gather to hide it.
  const double back = layout.zero.divides_states() ? activation_bytes(request_) : gradient_bytes;
  const double bytes = parameters * (gradient_bytes + back) * (copies - 1) / copies;
  const LinkSpeed link = links_.replicas(layout);
  return bytes / link.rate + 2.0 * (copies - 1) * link.latency;
}

// Two stages exchange their sums; one stage with both ends adds them in place: it reads two numbers and writes one.
double LayoutCosts::tied_seconds(const Layout& layout, const Placement& placement) const {
  const double bytes = static_cast<double>(request_.config.hidden * request_.config.vocabulary) * gradient_bytes / layout.tp;
  if (tied_sum_places(placement).size() == 1) return 3 * bytes / request_.speed.memory_rate;
  const LinkSpeed link = links_.stages(layout, 0, layout.pp - 1);
  return link.latency + bytes / link.rate;
}

// Covers the parameters that the stage steps. Offloaded gradients are fetched for it.
double LayoutCosts::norm_seconds(const HeldParameters& own) const {
  return std::max(own.trained * gradient_bytes / request_.speed.memory_rate,
                  own.leaving_gradients * gradient_bytes / request_.speed.offload_rate);
}

// The bytes that a step of the optimizer moves: it reads weights, gradients and its states, and writes all but the
// gradients. Offloaded states and masters are fetched and stored meanwhile, both ways at once, and offloaded gradients
// are fetched; offloaded weights that operations read are stored, and fetched first where they have no masters.
double LayoutCosts::optimizer_seconds(const HeldParameters& own) const {
  const double kept = state_bytes(request_);
  const double seconds = own.trained * (2 * kept + 3.0 * sizeof(float) + rounded_bytes(request_)) / request_.speed.memory_rate;
  const bool masters = rounded_bytes(request_) > 0;
  const double states = request_.offload.optimizer ? kept + (masters ? sizeof(float) : 0) : 0;
  const double operands = request_.offload.parameters ? activation_bytes(request_) : 0;
  const double out = own.trained * (states + operands);
  const double in = own.trained * (states + (masters ? 0 : operands)) + own.leaving_gradients * gradient_bytes;
  return std::max(seconds, std::max(in, out) / request_.speed.offload_rate);
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
      row.back().reduce_grads = reduce_seconds(layout, part.trained);
      if (layout.tp > 1) row.back().sum_replicated = 2.0 * (layout.tp - 1) * request_.speed.latency;
      if (request_.config.tied_embeddings && request_.config.trained.head && (v == 0 || v + 1 == placement.virtual_stages()))
        row.back().sum_tied = tied_seconds(layout, placement);
    }
    const HeldParameters own = held(layout, placement, stage).divided(sharing(layout));
    costs.norm.push_back(norm_seconds(own));
    costs.optimizer.push_back(optimizer_seconds(own));
  }
  costs.set_edges(placement, edges(layout));
  costs.verdict = 2 * links_.verdict().latency;
  return costs;
}

double LayoutCosts::bound(const Layout& layout, const Placement& placement) {
  const auto& costs = parts(layout);
  double bound = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    double compute = 0, first = 0;  // first: forwards before the stage's own
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      const PartCost& part = costs[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))];
      compute += part.compute() - (layout.braids() ? 2 * part.times.tp_communication : 0);
    }
    const int before = request_.post_validation ? 0 : placement.virtual_stage(stage, 0);  // these may run in the previous step
    for (int v = 0; v < before; ++v) first += costs[static_cast<std::size_t>(v)].times.forward;
    const HeldParameters whole = held(layout, placement, stage), own = whole.divided(sharing(layout));
    const double end = reduce_seconds(layout, whole.trained) + norm_seconds(own) + optimizer_seconds(own);
    bound = std::max(bound, first + static_cast<double>(layout.microbatches) * compute + end);
  }
  return bound;
}

double LayoutCosts::most_state_bytes(const Layout& layout, const Placement& placement) {
  // The states and masters, the gradients, and the weights that operations read: each whole or divided.
  const Zero& zero = layout.zero;
  const auto kept = [&](bool divided, double bytes) { return divided ? bytes / layout.copies() : bytes; };
  const double masters = rounded_bytes(request_) > 0 ? sizeof(float) : 0;
  const double states = kept(zero.divides_states(), request_.offload.optimizer ? 0 : state_bytes(request_) + masters),
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
