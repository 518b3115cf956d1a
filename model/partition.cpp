// Contiguous min-max partition: bisection first finds the smallest possible cost of the costliest part; dynamic
// programming then finds the most even parts (smallest sum of squares) within that bound.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "model/config/recompute_layers.hpp"
#include "model/costs.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {
namespace {

// prefix[j] is the cost of the first j items.
using Prefix = std::vector<std::int64_t>;

bool fits(const Prefix& prefix, int parts, std::int64_t bound) {
  std::size_t begin = 0;
  for (; parts > 0 && begin + 1 < prefix.size(); --parts) {  // each part takes all it can
    const auto end = std::upper_bound(prefix.begin(), prefix.end(), prefix[begin] + bound);
    begin = static_cast<std::size_t>(end - prefix.begin()) - 1;
  }
  return begin + 1 == prefix.size();
}

std::int64_t smallest_bound(const Prefix& prefix, int parts) {
  std::int64_t below = 0, bound = prefix.back();
  while (bound - below > 1) {
    const std::int64_t middle = below + (bound - below) / 2;
    (fits(prefix, parts, middle) ? bound : below) = middle;
  }
  return bound;
}

// The range in which the first k parts can end, [k], so that they and the parts after them cost no more than
// `bound` each. At the smallest possible bound the range is small, however many items there are.
struct EndRange {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last < first ? 0 : last - first + 1; }
};

std::vector<EndRange> end_ranges(const Prefix& prefix, std::size_t count, std::int64_t bound) {
  const std::size_t items = prefix.size() - 1;
  std::vector<EndRange> ranges(count + 1);
  ranges[count] = {items, items};
  for (std::size_t k = 1; k < count; ++k) {  // no part is empty
    const auto end = std::upper_bound(prefix.begin(), prefix.end(), prefix[ranges[k - 1].last] + bound);
    ranges[k].last = std::min(static_cast<std::size_t>(end - prefix.begin()) - 1, items - (count - k));
  }
  for (std::size_t k = count - 1; k > 0; --k) {
    const auto begin = std::lower_bound(prefix.begin(), prefix.end(), prefix[ranges[k + 1].first] - bound);
    ranges[k].first = std::max(static_cast<std::size_t>(begin - prefix.begin()), k);
  }
  return ranges;
}

// Returns the beginning of each part, and the end of the last. No part is empty, none costs more than `bound`,
// and the sum of squares is least.
std::vector<std::size_t> level_cuts(const Prefix& prefix, int parts, std::int64_t bound) {
  constexpr double impossible = std::numeric_limits<double>::infinity();
  const auto count = static_cast<std::size_t>(parts);
  const std::vector<EndRange> ranges = end_ranges(prefix, count, bound);
  // The least sum of squares for cutting the first j items into k parts, for j in the range of k.
  std::vector<double> best{0};
  std::vector<std::vector<std::uint32_t>> begin_of_last(count + 1);
  for (std::size_t k = 1; k <= count; ++k) {
    const EndRange before = ranges[k - 1], range = ranges[k];
    std::vector<double> next(range.size(), impossible);
    begin_of_last[k].resize(range.size());
    for (std::size_t at = 0; at < range.size(); ++at) {
      const std::size_t j = range.first + at;
      for (std::size_t i = std::min(before.last + 1, j); i-- > before.first && prefix[j] - prefix[i] <= bound;) {
        const double share = static_cast<double>(prefix[j] - prefix[i]) / static_cast<double>(bound);
        const double squares = best[i - before.first] + share * share;
        if (squares > next[at] || squares == impossible) continue;
        next[at] = squares;  // the last of equal choices: earlier stages, which hold more activations, get less
        begin_of_last[k][at] = static_cast<std::uint32_t>(i);
      }
    }
    best = std::move(next);
  }
  std::vector<std::size_t> bounds(count + 1, prefix.size() - 1);
  for (std::size_t k = count; k > 0; --k) bounds[k - 1] = begin_of_last[k][bounds[k] - ranges[k].first];
  return bounds;
}

}  // namespace

std::vector<std::vector<Block>> partition_blocks(const ModelConfig& config, int parts, std::int64_t sequence,
                                                 const Numerics& numerics, int slices) {
  const std::vector<Block> blocks = blocks_of(config);
  // Attention and MLP blocks; the embedding goes with the first, and with the last the head and a further prediction.
  const auto inner = static_cast<std::size_t>(dealt_blocks(config));
  if (parts < 1) throw Error(ErrorKind::input, fmt::format("{} stages: at least 1 is needed", parts));
  if (inner < static_cast<std::size_t>(parts)) {
    throw Error(ErrorKind::input, {"pp", ""},
                fmt::format("the model's {} attention and MLP blocks, two a layer, are too few for {} stages; use {} or fewer "
                            "(pp x chunks), or a model of more layers",
                            inner, parts, inner));
  }
  // Equally many layers of every part recompute, so the work that they add is equal for all parts.
  const Recompute again = numerics.recompute_layers ? lighter(numerics.recompute) : numerics.recompute;
  const auto cost_of = [&](const Block& block) {
    return static_cast<std::int64_t>(
        block_flops_per_token(config, block, sequence) +
        block_recompute_flops_per_token(config, block, sequence, again, slices * numerics.loss_chunks));
  };
  Prefix prefix{0};
  for (std::size_t i = 0; i < inner; ++i) {
    std::int64_t cost = cost_of(blocks[i + 1]);
    if (i == 0) cost += cost_of(blocks.front());
    for (std::size_t after = inner + 1; i + 1 == inner && after < blocks.size(); ++after) cost += cost_of(blocks[after]);
    prefix.push_back(prefix.back() + cost);
  }
  const std::vector<std::size_t> bounds = level_cuts(prefix, parts, smallest_bound(prefix, parts));

  std::vector<std::vector<Block>> runs;
  for (std::size_t k = 0; k + 1 < bounds.size(); ++k) {
    const std::size_t begin = k == 0 ? 0 : bounds[k] + 1;
    const std::size_t end = k + 2 == bounds.size() ? blocks.size() : bounds[k + 1] + 1;
    runs.emplace_back(blocks.begin() + static_cast<std::ptrdiff_t>(begin), blocks.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return runs;
}

}  // namespace pipetrain
