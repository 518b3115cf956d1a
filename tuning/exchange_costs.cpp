#include "tuning/exchange_costs.hpp"

#include <algorithm>

#include "tuning/block_costs.hpp"

namespace pipetrain {

// Loads are even: each rank has an ep-th of the experts of every token. A token travels once to each rank, and a row comes back
// for each of its experts. Every tensor-parallel rank sends whole rows.
double ExchangeCosts::of_experts(const Block& block, const Layout& layout, const LinkSpeed& link) const {
  if (layout.ep == 1 || block.kind != BlockKind::experts) return 0;
  const auto chosen = static_cast<double>(request_.config.experts.chosen), ranks = static_cast<double>(layout.ep);
  const double row = static_cast<double>(request_.config.hidden) * activation_bytes(request_);
  const double rows = tokens_of(request_, layout) * (std::min(chosen, ranks) + chosen) * (ranks - 1) / ranks;
  constexpr double exchanges = 3;  // choices, tokens, rows
  return rows * row / link.rate + exchanges * (ranks - 1) * link.latency;
}

// A tensor-parallel block gathers its activations once and scatters them once, in F and again in I. On GPUs products run in
// pieces, one for each rank: while one is multiplied, the next one travels.
double ExchangeCosts::of_pieces(const Layout& layout, double product) const {
  if (layout.tp == 1) return 0;
  const double others = layout.tp - 1, share = others / layout.tp;
  const double activation =
      tokens_of(request_, layout) * static_cast<double>(request_.config.hidden) * activation_bytes(request_);
  const double travels = 2 * share * activation / request_.speed.link_rate;
  const double hidden = request_.device == DeviceKind::cuda ? std::min(travels, share * product) : 0;
  return travels - hidden + 2 * others * request_.speed.latency;
}

// Within a host of GPUs kernels copy what is exchanged, which need the multiprocessors on which the other microbatch is
// computed: braids of Qwen3-30B-A3B gain 0.3 % of a step on two H100, so none is supposed. Between hosts they hide the time
// that the network adds.
Exchanges ExchangeCosts::of(const Block& block, const Layout& layout, const ProductSeconds& products) const {
  const double travel = of_experts(block, layout, links_.experts(layout)), pieces = of_pieces(layout, products.forward);
  Exchanges found{.forward = pieces + travel,
                  .input_grad = of_pieces(layout, products.input_grad) + travel,
                  .again = pieces / 2 + travel,
                  .hideable = pieces + travel};
  const LinkSpeed within_host{request_.speed.link_rate, request_.speed.latency};
  if (request_.device == DeviceKind::cuda) found.hideable = std::max(0.0, travel - of_experts(block, layout, within_host));
  return found;
}

}  // namespace pipetrain
