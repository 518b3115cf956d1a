#include "model/parameters/shard_units.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <unordered_set>

namespace pipetrain {
namespace {

// A stored tensor and the properties of its gradient region.
struct Placed {
  const StoredTensor* tensor;
  std::size_t block;
  int chunk;
  bool vectors;    // a vector, or replicated over the tensor-parallel ranks
  bool tied_copy;  // the second accumulator of a table on this stage
};

// Returns the tensors in the order of the gradient arena.
std::vector<Placed> placed_tensors(const ParameterLayout& layout) {
  std::vector<Placed> placed;
  for (std::size_t block = 0; block < layout.blocks.size(); ++block) {
    const int chunk = layout.blocks[block].chunk;
    const Region replicated = layout.replicated_grads.at(static_cast<std::size_t>(chunk));
    for (const StoredTensor& tensor : layout.blocks[block].tensors) {
      const bool everywhere = tensor.grad_offset >= replicated.begin && tensor.grad_offset < replicated.end;
      placed.push_back({&tensor, block, chunk, everywhere || tensor.shape.rank() == 1, false});
    }
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.tensor->grad_offset < b.tensor->grad_offset; });
  std::unordered_set<std::size_t> stored;
  for (Placed& one : placed) one.tied_copy = !stored.insert(one.tensor->offset).second;
  return placed;
}

bool goes_on(const Placed& before, const Placed& tensor) {
  if (before.chunk != tensor.chunk || before.vectors != tensor.vectors) return false;
  if (is_of_words(before.tensor->role) || is_of_words(tensor.tensor->role)) return false;
  return tensor.vectors || before.block == tensor.block;
}

using ByGrads = std::vector<const Parameter*>;

bool begins_before(const Parameter* parameter, std::size_t grads) { return parameter->grad_offset < grads; }

// Returns the parameters in the order of the gradient arena.
ByGrads parameters_by_grads(const ParameterLayout& layout) {
  ByGrads parameters;
  for (const Parameter& parameter : layout.parameters) parameters.push_back(&parameter);
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const Parameter* a, const Parameter* b) { return a->grad_offset < b->grad_offset; });
  return parameters;
}

// A place at which a unit may be cut: the offset from its beginning, and the elements of all tensor-parallel ranks before it,
// which say how even a cut is.
struct CutPlace {
  std::int64_t offset = 0, before = 0;
};

// Returns the places in rising order, with the unit's end.
std::vector<CutPlace> cut_places(const ByGrads& parameters, const ShardUnit& unit, ShardCuts cuts) {
  std::vector<CutPlace> places;
  const auto first = std::lower_bound(parameters.begin(), parameters.end(), unit.grads, begins_before);
  const auto end = std::lower_bound(first, parameters.end(), unit.grads + unit.weights.size(), begins_before);
  const auto length = static_cast<std::int64_t>(unit.weights.size());
  if (cuts == ShardCuts::tensors) {
    // Ranks cut alike, because they know the whole tensors; the first slice of each counts.
    std::int64_t before = 0;
    for (auto one = first; one != end; ++one) {
      if (one != first && (*std::prev(one))->name == (*one)->name) continue;
      places.push_back({static_cast<std::int64_t>((*one)->grad_offset - unit.grads), before});
      before += (*one)->full.elements();
    }
    places.push_back({length, before});
    return places;
  }
  for (auto one = first; one != end; ++one) {
    const auto elements = static_cast<std::size_t>((*one)->local.elements());
    for (std::size_t at = 0; at < elements; at += norm_block_elements) {
      const auto begin = static_cast<std::int64_t>((*one)->grad_offset - unit.grads + at);
      places.push_back({begin, begin});
    }
  }
  std::sort(places.begin(), places.end(), [](const CutPlace& a, const CutPlace& b) { return a.offset < b.offset; });
  places.push_back({length, length});
  return places;
}

// By replica: the distance by which the cuts so far lie after their even positions, which later units make up for.
using Surplus = std::vector<double>;

void cut(ShardUnit& unit, const std::vector<CutPlace>& places, Surplus& surplus, bool alone) {
  const auto total = static_cast<double>(places.back().before);
  const std::size_t replicas = surplus.size();
  CutPlace last;
  unit.cuts.assign(1, 0);
  for (std::size_t replica = 1; replica < replicas; ++replica) {
    const double even = total * static_cast<double>(replica) / static_cast<double>(replicas);
    const double wanted = alone ? even : even - surplus[replica];
    const auto distance = [wanted](const CutPlace& place) { return std::abs(static_cast<double>(place.before) - wanted); };
    const auto nearest = std::min_element(places.begin(), places.end(),
                                          [&](const CutPlace& a, const CutPlace& b) { return distance(a) < distance(b); });
    if (nearest->offset > last.offset) last = *nearest;
    unit.cuts.push_back(last.offset);
    surplus[replica] += static_cast<double>(last.before) - even;
  }
  unit.cuts.push_back(places.back().offset);
}

// Returns the unit of the table whose weights the copy uses.
const ShardUnit& table_of(const std::vector<ShardUnit>& units, const ShardUnit& copy) {
  const auto found = std::find_if(units.begin(), units.end(), [&](const ShardUnit& unit) {
    return !unit.tied_copy && unit.weights.begin == copy.weights.begin;
  });
  assert(found != units.end());
  return *found;
}

}  // namespace

std::vector<ShardUnit> shard_units(const ParameterLayout& layout, int replicas, ShardCuts cuts) {
  const std::vector<Placed> placed = placed_tensors(layout);
  const ByGrads parameters = parameters_by_grads(layout);
  std::vector<ShardUnit> units;
  Surplus surplus(static_cast<std::size_t>(replicas), 0);
  // Ranks that hold copies of a slice must cut it alike, whatever their tables' lengths.
  const bool has_copies = std::any_of(layout.parameters.begin(), layout.parameters.end(),
                                      [](const Parameter& parameter) { return parameter.copies > 1; });
  for (std::size_t i = 0; i < placed.size();) {
    const std::size_t first = i;
    do {
      ++i;
    } while (i < placed.size() && goes_on(placed[i - 1], placed[i]));
    const Placed& begin = placed[first];
    const std::size_t end = i < placed.size() ? placed[i].tensor->grad_offset : layout.grad_elements;
    ShardUnit unit;
    unit.grads = begin.tensor->grad_offset;
    unit.weights = {begin.tensor->offset, begin.tensor->offset + end - unit.grads};
    unit.block = begin.block;
    unit.chunk = begin.chunk;
    unit.vectors = begin.vectors;
    unit.tied_copy = begin.tied_copy;
    if (unit.tied_copy) {
      unit.cuts = table_of(units, unit).cuts;
    } else {
      cut(unit, cut_places(parameters, unit, cuts), surplus,
          (has_copies && cuts == ShardCuts::norm_blocks) || is_of_words(begin.tensor->role));
    }
    units.push_back(std::move(unit));
  }
  return units;
}

std::vector<HeldPart> held_parts(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int replica) {
  std::vector<HeldPart> parts;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters[i];
    const auto after = std::upper_bound(units.begin(), units.end(), parameter.grad_offset,
                                        [](std::size_t at, const ShardUnit& unit) { return at < unit.grads; });
    const ShardUnit& unit = *std::prev(after);
    const std::size_t first = parameter.grad_offset - unit.grads;
    const std::size_t last = first + static_cast<std::size_t>(parameter.local.elements());
    const Region run = unit.run(replica);
    const std::size_t begin = std::max(first, run.begin), end = std::min(last, run.end);
    if (begin < end) parts.push_back({i, begin - first, end - first, static_cast<std::size_t>(&unit - units.data())});
  }
  return parts;
}

std::vector<HeldPart> whole_parameters(const ParameterLayout& layout) {
  std::vector<HeldPart> all;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i)
    all.push_back({i, 0, static_cast<std::size_t>(layout.parameters[i].local.elements())});
  return all;
}

}  // namespace pipetrain
