// The order of the tokens that expert-parallel ranks send each other, and of the rows that they compute for each other.
#include <algorithm>
#include <vector>

#include "ops/cpu/kernels.hpp"

namespace pipetrain::cpu {
namespace {

// The choices of one token that one rank computes: [begin, end) of its experts, which ascend.
struct ChoicesOfRank {
  std::int64_t begin, end;
};

// Calls visit(rank, token, choices) for each rank that holds experts of a token, by rank and then by token.
template <class Visit>
void for_each_sent(const Routing& routing, std::int64_t ranks, const Visit& visit) {
  const std::int64_t tokens = routing.experts.rows(), chosen = routing.experts.cols();
  const std::int64_t of_rank = routing.probabilities.cols() / ranks;
  const auto* const experts = routing.experts.as<std::int32_t>();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::int32_t* const own = experts + token * chosen;
      const auto first = std::lower_bound(own, own + chosen, rank * of_rank) - own;
      const auto last = std::lower_bound(own, own + chosen, (rank + 1) * of_rank) - own;
      if (first < last) visit(rank, token, ChoicesOfRank{first, last});
    }
  }
}

}  // namespace

void send_tokens(const SendTokensArgs& args) {
  const Routing& routing = args.routing;
  const std::int64_t ranks = args.sent.offsets.elements() - 1, chosen = routing.experts.cols();
  const std::int64_t of_rank = routing.probabilities.cols() / ranks;
  auto* const offsets = args.sent.offsets.as<std::int32_t>();
  std::fill_n(offsets, ranks + 1, 0);
  std::fill_n(args.sent.places.as<std::int32_t>(), args.sent.places.elements(), -1);
  std::int32_t sent = 0, returned = 0;
  for_each_sent(routing, ranks, [&](std::int64_t rank, std::int64_t token, const ChoicesOfRank& choices) {
    auto* const experts = args.sent.experts.as<std::int32_t>() + sent * chosen;
    auto* const weights = args.sent.weights.as<float>() + sent * chosen;
    std::int64_t taken = 0;
    for (std::int64_t choice = token * chosen + choices.begin; choice < token * chosen + choices.end; ++choice) {
      const std::int32_t place = routing.places.as<std::int32_t>()[choice];
      if (place < 0) continue;
      experts[taken] = routing.experts.as<std::int32_t>()[choice] - static_cast<std::int32_t>(rank * of_rank);
      weights[taken++] = routing.weights.as<float>()[place];
      args.sent.places.as<std::int32_t>()[choice] = returned++;
    }
    if (taken == 0) return;
    std::fill(experts + taken, experts + chosen, -1);
    std::fill(weights + taken, weights + chosen, 0.0F);
    args.sent.tokens.as<std::int32_t>()[sent++] = static_cast<std::int32_t>(token);
    offsets[rank + 1] = sent;
  });
  for (std::int64_t rank = 1; rank <= ranks; ++rank) offsets[rank] = std::max(offsets[rank], offsets[rank - 1]);
}

void sort_received(const SortReceivedArgs& args) {
  const std::int64_t ranks = args.offsets.elements() - 1, chosen = args.experts.cols();
  const auto* const from = args.offsets.as<std::int32_t>();
  const auto* const experts = args.experts.as<std::int32_t>();
  auto* const offsets = args.rows.offsets.as<std::int32_t>();
  std::fill_n(offsets, args.rows.offsets.elements(), 0);
  for (std::int64_t choice = 0; choice < from[ranks] * chosen; ++choice)
    if (experts[choice] >= 0) ++offsets[experts[choice] + 1];
  for (std::int64_t e = 1; e < args.rows.offsets.elements(); ++e) offsets[e] += offsets[e - 1];
  std::vector<std::int32_t> next(offsets, offsets + args.rows.offsets.elements());
  auto* const return_offsets = args.rows.return_offsets.as<std::int32_t>();
  std::int32_t returned = 0;
  return_offsets[0] = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t choice = from[rank] * chosen; choice < from[rank + 1] * chosen; ++choice) {
      if (experts[choice] < 0) continue;
      const std::int32_t row = next[static_cast<std::size_t>(experts[choice])]++;
      args.rows.tokens.as<std::int32_t>()[row] = static_cast<std::int32_t>(choice / chosen);
      args.rows.weights.as<float>()[row] = args.weights.as<float>()[choice];
      args.rows.returned.as<std::int32_t>()[returned++] = row;
    }
    return_offsets[rank + 1] = returned;
  }
}

}  // namespace pipetrain::cpu
