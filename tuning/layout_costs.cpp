#include "tuning/layout_costs.hpp"

#include <algorithm>
#include <array>

#include "model/config/recompute_layers.hpp"
#include "model/costs.hpp"
#include "model/fp8_weights.hpp"

namespace pipetrain {

using schedules::Placement;

namespace {

// Gradients are fp32 in every precision.
constexpr double gradient_bytes = sizeof(float);

double activation_bytes(const LayoutRequest& request) { return static_cast<double>(size_of(request.precision.compute)); }

// bf16 keeps rounded weights in addition to those that the optimizer updates.
double rounded_bytes(const LayoutRequest& request) {
  return request.precision.rounds_weights() ? static_cast<double>(size_of(request.precision.compute)) : 0;
}

// Returns the parameters that one replica steps and counts.
HeldParameters shared(const HeldParameters& whole, const Layout& layout) {
  return layout.zero.divides_states() ? whole.divided(layout.copies(), layout.expert_copies()) : whole;
}

// Returns the number of replicas that gather each block's weights from one another: with offloaded weights, at every
// stage of ZeRO that divides states.
int gathering(const LayoutRequest& request, const Layout& layout) {
  const bool divided = request.offload.parameters ? layout.zero.divides_states() : layout.zero.divides_weights();
  return divided ? layout.copies() : 1;
}

// Returns the tokens of a microbatch that one rank computes together with all tensor-parallel ranks of its stage.
double tokens_of(const LayoutRequest& request, const Layout& layout) {
  return static_cast<double>(layout.microbatch * request.sequence) / layout.cp;
}

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
  return {layout.tp, layout.microbatch, Again{layout.recompute, layout.recompute_layers}, gathering(request_, layout),
          layout.ep};
}

const PartCost& LayoutCosts::cost_of_run(std::size_t first, const std::vector<Block>& blocks, const Layout& layout) {
  const auto key = std::tuple(how(layout), first, blocks.size());
  const auto found = runs_.find(key);
  return found != runs_.end() ? found->second : runs_.emplace(key, cost_of(blocks, layout)).first->second;
}

std::vector<BlockSeconds> LayoutCosts::block_seconds(const Layout& layout) {
  Layout least = layout;
  if (layout.recompute_layers) least.recompute_layers = 0;
  const std::vector<Block> blocks = blocks_of(request_.config);
  std::vector<BlockSeconds> seconds(static_cast<std::size_t>(dealt_blocks(request_.config)));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const schedules::ChunkCost times = cost_of({blocks[i]}, least).times;
    BlockSeconds& sum = seconds[std::min(i > 0 ? i - 1 : 0, seconds.size() - 1)];
    const double hidden = layout.braids() ? times.tp_communication : 0;
    sum.forward += times.forward - hidden;
    sum.input_grad += times.input_grad - hidden;
    sum.weight_grad += times.weight_grad;
  }
  return seconds;
}

const LayoutCosts::BlockFigures& LayoutCosts::figures(const Block& block) const {
  constexpr std::array<Recompute, 3> modes = {Recompute::none, Recompute::selective, Recompute::full};
  const auto layer = static_cast<std::size_t>(block.layer);
  auto& known = figures_[static_cast<std::size_t>(block.kind)];
  if (known.size() <= layer) known.resize(layer + 1);
  if (known[layer]) return *known[layer];
  BlockFigures made;
  made.parameters = static_cast<double>(block_parameter_count(request_.config, block));
  made.trained = static_cast<double>(trained_parameter_count(request_.config, block));
  made.experts = static_cast<double>(expert_parameter_count(request_.config, block));
  made.weight_grad = block_weight_grad_flops_per_token(request_.config, block);
  made.flops = block_flops_per_token(request_.config, block, request_.sequence);
  for (const Recompute mode : modes)
    made.again[static_cast<std::size_t>(mode)] =
        block_recompute_flops_per_token(request_.config, block, request_.sequence, mode);
  return known[layer].emplace(made);
}

// Returns the seconds of recomputation in the backward, for one tensor-parallel rank: products by their FLOPs,
// elementwise passes by the bytes that they read and write.
double LayoutCosts::again_seconds(const Block& block, const Layout& layout, Recompute recompute) const {
  if (recompute == Recompute::none || block.kind == BlockKind::embedding) return 0;
  const ModelConfig& config = request_.config;
  const double tokens = tokens_of(request_, layout), tp = layout.tp;
  const auto normed = 2.0 * static_cast<double>(config.hidden);
  const double inner = block.kind == BlockKind::mlp       ? static_cast<double>(config.mlp_columns() + config.intermediate)
                       : block.kind == BlockKind::experts ? 3.0 * static_cast<double>(config.experts.active_columns())
                                                          : 0;
  const double flops = figures(block).again[static_cast<std::size_t>(recompute)];
  return tokens / tp *
         (flops / product_rate(block) + (normed + inner) * activation_bytes(request_) / request_.speed.memory_rate);
}

// A replica fetches its own part of a block's offloaded weights, and gathers the others' parts over their links; the
// next block's part is fetched meanwhile, so the slower of the two counts.
double LayoutCosts::gather_seconds(const Block& block, const Layout& layout) const {
  const int replicas = gathering(request_, layout);
  const double bytes = own_parameters(block, layout, figures(block).parameters) / layout.tp * activation_bytes(request_);
  const double fetched = request_.offload.parameters ? bytes / replicas / request_.speed.offload_rate : 0;
  if (replicas == 1) return fetched;
  const LinkSpeed link = links_.replicas(layout);
  return std::max(fetched, bytes * (replicas - 1) / replicas / link.rate + (replicas - 1) * link.latency);
}

// Offloaded gradients are fetched while the previous block computes, and stored, both ways at once; those of tables are
// not offloaded.
double LayoutCosts::leaving_gradients(const Block& block, const Layout& layout) const {
  const bool leaves = request_.offload.gradients && is_of_layer(block.kind);
  return leaves ? own_parameters(block, layout, figures(block).trained) / layout.tp : 0;
}

bool LayoutCosts::shares_sooner(const Layout& layout) const {
  return (layout.copies() - 1.0) / layout.copies() / links_.replicas(layout).rate < 1 / request_.speed.offload_rate;
}

double LayoutCosts::product_rate(const Block& block) const {
  const bool in_fp8 = multiplies_in_fp8(block, request_.config.layers, {.precision = request_.precision});
  return in_fp8 ? request_.speed.fp8_flops : request_.speed.flops;
}

// Each number is read in 16 bits and written in 8, in two layouts: the inputs of the block's two matrices, and the
// gradients of their outputs. Weights that are brought for each use are rounded for each use.
Rounding LayoutCosts::rounding_seconds(const Block& block, const Layout& layout) const {
  const ModelConfig& config = request_.config;
  if (!multiplies_in_fp8(block, config.layers, {.precision = request_.precision})) return {};
  constexpr double bytes = 4;
  const bool is_mlp = block.kind == BlockKind::mlp;
  const std::int64_t packed = (config.heads + 2 * config.kv_heads) * config.head_dim;
  const auto inner = static_cast<double>(is_mlp ? config.intermediate : config.heads * config.head_dim);
  const auto outer = static_cast<double>(is_mlp ? config.mlp_columns() : packed);
  const double hidden = static_cast<double>(config.hidden), tokens = tokens_of(request_, layout);
  const bool comes = gathering(request_, layout) > 1 || request_.offload.parameters;
  const double weights = comes ? figures(block).parameters / layout.tp : 0;
  const auto seconds = [&](double columns) {
    return bytes * (tokens * (hidden + columns / layout.tp) + weights) / request_.speed.memory_rate;
  };
  return {seconds(inner), seconds(outer)};
}

// The part of a ring's transfers that attention does not hide, plus the time to combine its parts: see
// model/blocks/ring_attention.cpp. The attention of one ring step is 1 / cp of the block's; forward it hides the
// transfer of the next keys and values, backward also that of the previous gradients. Nothing hides the last transfer
// of gradients. Three quarters of the queries use another rank's keys.
LayoutCosts::Ring LayoutCosts::ring_seconds(const Block& block, const Layout& layout, double scores) const {
  if (layout.cp == 1 || block.kind != BlockKind::attention) return {};
  const ModelConfig& config = request_.config;
  const LinkSpeed link = links_.sequences(layout);
  const double tokens = tokens_of(request_, layout), steps = layout.cp, bytes = activation_bytes(request_);
  const double keys = tokens * static_cast<double>(config.kv_heads * (config.head_dim + config.value_dim())) / layout.tp;
  const double pass = link.latency + keys * bytes / link.rate, gradients = link.latency + keys * gradient_bytes / link.rate;
  const double exposed = (steps - 1) * std::max(0.0, pass - scores / steps);
  double exposed_back = gradients;
  for (int step = 0; step < layout.cp; ++step) {
    const double travels = (step + 1 < layout.cp ? pass : 0) + (step > 0 ? gradients : 0);
    exposed_back += std::max(0.0, travels - 2 * scores / steps);
  }
  const double outputs = tokens * static_cast<double>(config.heads * config.value_dim()) / layout.tp;
  const double merged = 0.75 * (steps - 1) * outputs * (bytes + 2 * sizeof(float));
  const double added = (steps - 1) * keys * 3 * gradient_bytes;
  return {exposed + merged / request_.speed.memory_rate, exposed_back + added / request_.speed.memory_rate};
}

// Loads are even: each rank has an ep-th of the experts of every token. A token travels once to each rank, and a row comes back
// for each of its experts. Every tensor-parallel rank sends whole rows.
double LayoutCosts::expert_exchange_seconds(const Block& block, const Layout& layout) const {
  if (layout.ep == 1 || block.kind != BlockKind::experts) return 0;
  const auto chosen = static_cast<double>(request_.config.experts.chosen), ranks = static_cast<double>(layout.ep);
  const double row = static_cast<double>(request_.config.hidden) * activation_bytes(request_);
  const double rows = tokens_of(request_, layout) * (std::min(chosen, ranks) + chosen) * (ranks - 1) / ranks;
  const LinkSpeed link = links_.experts(layout);
  constexpr double exchanges = 3;  // choices, tokens, rows
  return rows * row / link.rate + exchanges * (ranks - 1) * link.latency;
}

// Products of activations and weights cost as much in F as in I and, for trained weights, in W; attention between positions has
// no weights, and both halves of its backward are in I. Each tensor-parallel block gathers and scatters its activations once in
// F and in I. Where replicas divide weights, or these are offloaded, F and I of a block take at least as long as the transfer
// of the next block's weights, and I and W together as long as that plus its gradients' transfer, because both share the link.
PartCost LayoutCosts::cost_of(const std::vector<Block>& blocks, const Layout& layout) const {
  const DeviceSpeed& speed = request_.speed;
  const ModelConfig& config = request_.config;
  const double tokens = tokens_of(request_, layout), tp = layout.tp;
  const double activation = tokens * static_cast<double>(config.hidden) * activation_bytes(request_);
  const double exchange = layout.tp == 1 ? 0 : 2 * ((tp - 1) / tp * activation / speed.link_rate + (tp - 1) * speed.latency);
  PartCost part;
  part.times.tp_collectives = std::max(1, 2 * static_cast<int>(blocks.size()));
  part.times.forward = part.times.input_grad = part.times.weight_grad = 0;
  const std::vector<Recompute> recompute = recompute_of_blocks(blocks, layout.numerics(request_.precision));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const double flops = figures(block).flops * tokens / tp;
    const double attention =
        block.kind != BlockKind::attention ? 0 : attention_flops_per_token(config, block, request_.sequence) * tokens / tp;
    const double weight_flops = figures(block).weight_grad * tokens / tp;
    const double product = (flops - attention - weight_flops) / 2 / product_rate(block), scores = attention / 3 / speed.flops;
    const double weight_product = weight_flops / product_rate(block);
    const Ring ring = ring_seconds(block, layout, scores);
    const double travel = expert_exchange_seconds(block, layout);
    const double gather = gather_seconds(block, layout);
    const Rounding rounding = rounding_seconds(block, layout);
    const BlockScale& scale = request_.scales[static_cast<std::size_t>(block.kind)];
    part.times.forward += scale.forward * std::max(gather, product + scores + ring.forward + exchange + travel +
                                                               rounding.forward + speed.block_overhead);
    // A block whose whole forward runs again gathers its input again.
    const double again = again_seconds(block, layout, recompute[i]) +
                         (recompute[i] == Recompute::full ? exchange / 2 + ring.forward + travel : 0);
    const double input_grad = std::max(
        gather, product + 2 * scores + ring.backward + exchange + travel + again + rounding.input_grad + speed.block_overhead);
    const double leaving = leaving_gradients(block, layout);
    const double moves = leaving * gradient_bytes / speed.offload_rate;
    part.times.input_grad += scale.input_grad * input_grad;
    part.times.weight_grad += scale.weight_grad * std::max(weight_product + speed.block_overhead, gather + moves - input_grad);
    part.leaving_gradients += leaving;
    // The part of the exchanges that transfers of weights do not cover; braids hide most of it.
    const double alone = product + scores + rounding.forward + speed.block_overhead;
    part.times.tp_communication +=
        std::min(scale.forward, scale.input_grad) * (std::max(gather, alone + exchange) - std::max(gather, alone));
    part.parameters += own_parameters(block, layout, figures(block).parameters) / tp;
    part.trained += own_parameters(block, layout, figures(block).trained) / tp;
    part.experts += figures(block).experts / layout.ep / tp;
  }
  return part;
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

// A ring sends everything twice, except the rank's own part.
double LayoutCosts::reduce_seconds(const Layout& layout, double trained, double experts) const {
  const int copies = layout.copies(), expert_copies = layout.expert_copies();
  if (copies == 1) return 0;
  // Gradients go to their owners, and return as sums or as new weights. With stage 3, the weights return when the next step
  // first gathers them, and no compute precedes that gather to hide it.
  const double back = layout.zero.divides_states() ? activation_bytes(request_) : gradient_bytes;
  const double moved = (trained - experts) * (copies - 1) / copies + experts * (expert_copies - 1) / expert_copies;
  const double bytes = moved * (gradient_bytes + back);
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

// A step of the optimizer multiplies matrices, and moves bytes: it reads weights, gradients and its states, and writes all but
// the gradients. Offloaded states and masters are fetched and stored meanwhile, both ways at once, and offloaded gradients are
// fetched; offloaded weights that operations read are stored, and fetched first where they have no masters.
double LayoutCosts::optimizer_seconds(const HeldParameters& own) const {
  const double kept = optimizer_.state_bytes, moved = 2 * kept + 3.0 * sizeof(float) + rounded_bytes(request_);
  const double seconds = own.trained * (moved / request_.speed.memory_rate + optimizer_.flops / request_.speed.flops);
  const bool masters = rounded_bytes(request_) > 0;
  const double states = request_.offload.optimizer ? kept + (masters ? sizeof(float) : 0) : 0;
  const double operands = request_.offload.parameters ? activation_bytes(request_) : 0;
  const double in = own.trained * (states + (masters ? 0 : operands)) + own.leaving_gradients * gradient_bytes;
  return std::max(seconds, std::max(in, own.trained * (states + operands)) / request_.speed.offload_rate);
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
      row.back().reduce_grads = reduce_seconds(layout, part.trained, part.experts);
      if (layout.tp > 1) row.back().sum_replicated = 2.0 * (layout.tp - 1) * request_.speed.latency;
      if (request_.config.shares_table() && request_.config.trained.head && (v == 0 || v + 1 == placement.virtual_stages()))
        row.back().sum_tied = tied_seconds(layout, placement);
    }
    const HeldParameters own = shared(held(layout, placement, stage), layout);
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
    const HeldParameters whole = held(layout, placement, stage), own = shared(whole, layout);
    const double end = reduce_seconds(layout, whole.trained, whole.experts) + norm_seconds(own) + optimizer_seconds(own);
    bound = std::max(bound, first + static_cast<double>(layout.microbatches) * compute + end);
  }
  return bound;
}

double LayoutCosts::most_state_bytes(const Layout& layout, const Placement& placement) {
  // The states and masters, the gradients, and the weights that operations read: each whole or divided.
  const Zero& zero = layout.zero;
  const auto kept = [&](bool divided, double bytes) { return divided ? bytes / layout.copies() : bytes; };
  const double masters = rounded_bytes(request_) > 0 ? sizeof(float) : 0;
  const double states = kept(zero.divides_states(), request_.offload.optimizer ? 0 : optimizer_.state_bytes + masters),
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
