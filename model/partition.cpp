// Contiguous min-max partition by dynamic programming, twice: first the smallest possible cost of the costliest part, then,
// under that bound, the parts closest to each other (smallest sum of squares).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "model/costs.hpp"
#include "model/parameters.hpp"

namespace pipetrain {
namespace {

// table[k][j]: the least combined cost of cutting the first j items into k parts; combine(rest, cost of the last part).
template <class Combine>
std::vector<std::size_t> best_cuts(const std::vector<double>& prefix, int parts, Combine combine) {
  const std::size_t items = prefix.size() - 1, count = static_cast<std::size_t>(parts);
  std::vector<std::vector<double>> table(count + 1, std::vector<double>(items + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> cut(count + 1, std::vector<std::size_t>(items + 1, 0));
  table[0][0] = 0;
  for (std::size_t k = 1; k <= count; ++k) {
    for (std::size_t j = k; j + (count - k) <= items; ++j) {
      for (std::size_t i = k - 1; i < j; ++i) {  // of equals the first: earlier stages, which hold more activations, get less
        const double candidate = combine(table[k - 1][i], prefix[j] - prefix[i]);
        if (candidate < table[k][j]) {
          table[k][j] = candidate;
          cut[k][j] = i;
        }
      }
    }
  }
  std::vector<std::size_t> bounds(count + 1, items);
  for (std::size_t k = count; k > 0; --k) bounds[k - 1] = cut[k][bounds[k]];
  return bounds;
}

double costliest(const std::vector<double>& prefix, const std::vector<std::size_t>& bounds) {
  double most = 0;
  for (std::size_t k = 1; k < bounds.size(); ++k) most = std::max(most, prefix[bounds[k]] - prefix[bounds[k - 1]]);
  return most;
}

}  // namespace

std::vector<std::vector<Block>> partition_blocks(const ModelConfig& config, int parts, std::int64_t sequence) {
  const std::vector<Block> blocks = blocks_of(config);
  const std::size_t inner = blocks.size() - 2;  // attention and MLP blocks; embedding and head go with the first and the last
  if (parts < 1) throw Error(ErrorKind::input, fmt::format("{} stages: at least 1 is needed", parts));
  if (inner < static_cast<std::size_t>(parts)) {
    throw Error(
        ErrorKind::input,
        fmt::format("{} layers have {} attention and MLP blocks, too few for {} stages; use {} or fewer (--pp x chunks)",
                    config.layers, inner, parts, inner));
  }
  // Costs are whole numbers below 2^53, so their sums are exact and equal parts compare equal.
  std::vector<double> prefix{0};
  for (std::size_t i = 0; i < inner; ++i) {
    double cost = block_flops_per_token(config, blocks[i + 1], sequence);
    if (i == 0) cost += block_flops_per_token(config, blocks.front(), sequence);
    if (i + 1 == inner) cost += block_flops_per_token(config, blocks.back(), sequence);
    prefix.push_back(prefix.back() + cost);
  }
  const double bound =
      costliest(prefix, best_cuts(prefix, parts, [](double rest, double last) { return std::max(rest, last); }));
  const auto bounds = best_cuts(prefix, parts, [bound](double rest, double last) {
    return last <= bound ? rest + (last / bound) * (last / bound) : std::numeric_limits<double>::infinity();
  });

  std::vector<std::vector<Block>> runs;
  for (std::size_t k = 0; k + 1 < bounds.size(); ++k) {
    const std::size_t begin = k == 0 ? 0 : bounds[k] + 1;
    const std::size_t end = k + 2 == bounds.size() ? blocks.size() : bounds[k + 1] + 1;
    runs.emplace_back(blocks.begin() + static_cast<std::ptrdiff_t>(begin), blocks.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return runs;
}

}  // namespace pipetrain
