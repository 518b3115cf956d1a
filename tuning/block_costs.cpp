#include "tuning/block_costs.hpp"

#include <algorithm>
#include <cmath>

#include "model/config/recompute_layers.hpp"
#include "model/costs.hpp"
#include "model/fp8_weights.hpp"

namespace pipetrain {

double tokens_of(const LayoutRequest& request, const Layout& layout) {
  return static_cast<double>(layout.microbatch * request.sequence) / layout.cp;
}

const BlockCosts::BlockFigures& BlockCosts::figures(const Block& block) const {
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
double BlockCosts::again_seconds(const Block& block, const Layout& layout, Recompute recompute) const {
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
double BlockCosts::gather_seconds(const Block& block, const Layout& layout) const {
  const int replicas = gathering(request_, layout);
  const double bytes = own_parameters(block, layout, figures(block).parameters) / layout.tp * activation_bytes(request_);
  const double fetched = request_.offload.parameters ? bytes / replicas / request_.speed.offload_rate : 0;
  if (replicas == 1) return fetched;
  const LinkSpeed link = links_.replicas(layout);
  const BlockCode code = request_.compression.weights;
  const double share = coded_bytes(code, activation_bytes(request_)) / activation_bytes(request_);
  const double decoded = code == BlockCode::none ? 0 : bytes / request_.speed.memory_rate;
  return std::max(fetched, share * bytes * (replicas - 1) / replicas / link.rate + (replicas - 1) * link.latency + decoded);
}

// Offloaded gradients are fetched while the previous block computes, and stored, both ways at once; those of tables are
// not offloaded.
double BlockCosts::leaving_gradients(const Block& block, const Layout& layout) const {
  const bool leaves = request_.offload.gradients && is_of_layer(block.kind);
  return leaves ? own_parameters(block, layout, figures(block).trained) / layout.tp : 0;
}

double BlockCosts::product_rate(const Block& block) const {
  const bool in_fp8 = multiplies_in_fp8(block, request_.config.layers, {.precision = request_.precision});
  return in_fp8 ? request_.speed.fp8_flops : request_.speed.flops;
}

// Each number is read in 16 bits and written in 8, in two layouts: the inputs of the block's two matrices, and the
// gradients of their outputs; beside adapters, whose matrices have no gradient, in one layout. Weights that are brought for
// each use are rounded for each use.
BlockCosts::Rounding BlockCosts::rounding_seconds(const Block& block, const Layout& layout) const {
  const ModelConfig& config = request_.config;
  if (!multiplies_in_fp8(block, config.layers, {.precision = request_.precision})) return {};
  if (block.kind == BlockKind::experts) return expert_rounding_seconds(block, layout);
  constexpr double both_layouts = 4, one_layout = 3;
  const double bytes = config.adapter.exists() ? one_layout : both_layouts;
  const bool is_mlp = block.kind == BlockKind::mlp;
  const std::int64_t packed = (config.heads + 2 * config.kv_heads) * config.head_dim;
  const auto inner = static_cast<double>(is_mlp ? config.intermediate : config.heads * config.head_dim);
  const auto outer = static_cast<double>(is_mlp ? config.mlp_columns() : packed);
  const double hidden = static_cast<double>(config.hidden), tokens = tokens_of(request_, layout);
  const bool comes = gathering(request_, layout) > 1 || request_.offload.parameters;
  const double weights = comes ? figures(block).parameters / layout.tp : 0;
  const auto seconds = [&](double columns) {
    return (bytes * tokens * (hidden + columns / layout.tp) + both_layouts * weights) / request_.speed.memory_rate;
  };
  return {seconds(inner), seconds(outer)};
}

// The rows of the experts are rounded in one layout, since the gradients of weights are products in 16 bits. The largest
// magnitude of the gradients of their outputs is searched for first; the others are found as the rows are written.
BlockCosts::Rounding BlockCosts::expert_rounding_seconds(const Block& block, const Layout& layout) const {
  const ModelConfig& config = request_.config;
  constexpr double found = 3, searched_for = 5, both_layouts = 4;  // bytes a number
  const double rows = tokens_of(request_, layout) * static_cast<double>(config.experts.chosen),
               hidden = static_cast<double>(config.hidden),
               inner = static_cast<double>(config.experts.intermediate) / layout.tp;
  const bool comes = gathering(request_, layout) > 1 || request_.offload.parameters;
  const double weights = comes ? both_layouts * own_parameters(block, layout, figures(block).parameters) / layout.tp : 0;
  return {(rows * found * (hidden + inner) + weights) / request_.speed.memory_rate,
          (rows * (searched_for * hidden + found * 2 * inner) + weights) / request_.speed.memory_rate};
}

// The part of a ring's transfers that attention does not hide, plus the time to combine its parts: see
// model/blocks/ring_attention.cpp. The attention of one ring step is 1 / cp of the block's; forward it hides the
// transfer of the next keys and values, backward also that of the previous gradients. Nothing hides the last transfer
// of gradients. Three quarters of the queries use another rank's keys.
BlockCosts::Ring BlockCosts::ring_seconds(const Block& block, const Layout& layout, double scores) const {
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

double BlockCosts::attention_flops(const Block& block, const Layout& layout) const {
  if (block.kind != BlockKind::attention) return 0;
  return attention_flops_per_token(request_.config, block, request_.sequence) * tokens_of(request_, layout) / layout.tp;
}

// Products of activations and weights cost as much in F as in I and, for trained weights, in W.
BlockCosts::Products BlockCosts::product_seconds(const Block& block, const Layout& layout) const {
  const double share = tokens_of(request_, layout) / layout.tp, weight_flops = figures(block).weight_grad * share;
  const double flops = figures(block).flops * share - attention_flops(block, layout) - weight_flops;
  // The thin products of adapters have 16 bits, as the gradients of experts have.
  const bool in_16_bits = request_.config.adapter.exists() || block.kind == BlockKind::experts;
  const double forward = flops / 2 / product_rate(block),
               weight_grad = weight_flops / (in_16_bits ? request_.speed.flops : product_rate(block));
  const Products products{forward, forward, weight_grad};
  return block.kind == BlockKind::experts ? with_memory(products, block, layout) : products;
}

// The few rows of each expert do not hide what memory takes: every microbatch reads the weights of all experts in F and in I,
// and reads and writes their gradients in W. Products overlap with that in part: the root of the sum of both squares is within
// a tenth of grouped products on an H100, if gradients move at 0.87 of the rate (bench_gpu_experts). The rows of tokens pass
// memory between the products: they are gathered (2 H), activated (3 I) and summed (H) in F; in I their gradients are gathered
// and summed, and those of the activation take 5 I.
BlockCosts::Products BlockCosts::with_memory(const Products& products, const Block& block, const Layout& layout) const {
  const Experts& experts = request_.config.experts;
  const double rate = request_.speed.memory_rate, number = activation_bytes(request_), ranks = layout.ep * layout.tp;
  const auto hidden = static_cast<double>(request_.config.hidden), inner = static_cast<double>(experts.intermediate);
  const double weights = 3 * static_cast<double>(experts.count) * hidden * inner / ranks * number / rate,
               gradients = figures(block).experts / ranks * 2 * gradient_bytes / (0.87 * rate);
  const double row = tokens_of(request_, layout) * static_cast<double>(experts.chosen) * number / rate;
  return {.forward = std::hypot(products.forward, weights) + row * (3 * hidden + 3 * inner / layout.tp),
          .input_grad = std::hypot(products.input_grad, weights) + row * (3 * hidden + 5 * inner / layout.tp),
          .weight_grad = std::hypot(products.weight_grad, gradients)};
}

// Attention between positions has no weights, and both halves of its backward are in I. Where replicas divide weights, or these
// are offloaded, F and I of a block take at least as long as the transfer of the next block's weights, and I and W together as
// long as that plus its gradients' transfer, because both share the link.
PartCost BlockCosts::of(const std::vector<Block>& blocks, const Layout& layout) const {
  const DeviceSpeed& speed = request_.speed;
  const double tp = layout.tp;
  PartCost part;
  part.times.collectives = std::max(1, 2 * static_cast<int>(blocks.size()));
  part.times.forward = part.times.input_grad = part.times.weight_grad = 0;
  const std::vector<Recompute> recompute = recompute_of_blocks(blocks, layout.numerics(request_.precision));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const double scores = attention_flops(block, layout) / 3 / speed.flops;
    const Products products = product_seconds(block, layout);
    const Exchanges exchange = exchanges_.of(block, layout, {products.forward, products.input_grad});
    const Ring ring = ring_seconds(block, layout, scores);
    const double gather = gather_seconds(block, layout);
    const Rounding rounding = rounding_seconds(block, layout);
    const BlockScale& scale = request_.scales[static_cast<std::size_t>(block.kind)];
    part.times.forward += scale.forward * std::max(gather, products.forward + scores + ring.forward + exchange.forward +
                                                               rounding.forward + speed.block_overhead);
    // A block whose whole forward runs again gathers its input again.
    const double again =
        again_seconds(block, layout, recompute[i]) + (recompute[i] == Recompute::full ? exchange.again + ring.forward : 0);
    const double input_grad = std::max(gather, products.input_grad + 2 * scores + ring.backward + exchange.input_grad + again +
                                                   rounding.input_grad + speed.block_overhead);
    const double leaving = leaving_gradients(block, layout);
    const double moves = leaving * gradient_bytes / speed.offload_rate;
    part.times.input_grad += scale.input_grad * input_grad;
    part.times.weight_grad +=
        scale.weight_grad * std::max(products.weight_grad + speed.block_overhead, gather + moves - input_grad);
    part.leaving_gradients += leaving;
    // The part of the exchanges that transfers of weights do not cover; braids hide most of it.
    const double alone = products.forward + scores + rounding.forward + speed.block_overhead;
    part.times.communication +=
        std::min(scale.forward, scale.input_grad) * (std::max(gather, alone + exchange.hideable) - std::max(gather, alone));
    part.parameters += own_parameters(block, layout, figures(block).parameters) / tp;
    part.trained += own_parameters(block, layout, figures(block).trained) / tp;
    part.experts += figures(block).experts / layout.ep / tp;
  }
  return part;
}

}  // namespace pipetrain
