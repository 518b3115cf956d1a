#include "actors/training/state/gathered_parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "actors/training/state/coded_units.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {

std::vector<std::size_t> block_sequence(const ParameterLayout& layout, const std::vector<schedules::Action>& actions,
                                        schedules::StepKind kind) {
  std::vector<std::size_t> sequence;
  for (const schedules::Action& action : actions) {
    const bool forward = action.kind == schedules::ActionKind::forward;
    if (!forward && (kind == schedules::StepKind::evaluation || !gives_input_grad(action.kind))) continue;
    const std::size_t first = sequence.size();
    for (std::size_t block = 0; block < layout.blocks.size(); ++block) {
      const BlockParameters& one = layout.blocks[block];
      const bool reads = !one.tensors.empty() && (forward || one.block.kind != BlockKind::embedding);
      if (one.chunk == action.chunk && reads) sequence.push_back(block);
    }
    if (!forward) std::reverse(sequence.begin() + static_cast<std::ptrdiff_t>(first), sequence.end());
  }
  return sequence;
}

GatheredParameters::Sizes GatheredParameters::sizes(const ParameterLayout& layout, const std::vector<ShardUnit>& units,
                                                    int prefetch) {
  Sizes sizes;
  std::size_t largest = 0, count = 0;
  for (const ShardUnit& unit : units) {
    const std::size_t elements = align_elements(unit.weights.size());
    if (unit.vectors) {
      sizes.vectors += elements;
    } else if (is_table(layout, unit)) {
      sizes.table = std::max(sizes.table, elements);
    } else {
      largest = std::max(largest, elements);
      ++count;
    }
  }
  sizes.slots = largest * std::min(count, static_cast<std::size_t>(prefetch) + 1);
  return sizes;
}

GatheredParameters::GatheredParameters(const Setup& setup, const Replicas& replicas, std::unique_ptr<OwnShards> shards,
                                       int prefetch, UnitSlots::Sequences sequences)
    : SlottedParameters(setup, prefetch, std::move(sequences)), replicas_(replicas), shards_(std::move(shards)) {
  const auto elements = static_cast<std::int64_t>(sizes(setup.layout, setup.units, prefetch).total());
  whole_ = {nullptr, {elements}, shards_->type()};
  memory_ = setup.device.allocate(align_up(whole_.bytes()), setup.rank + ": gathered parameters");
  whole_.data = memory_.data();
  place_units(prefetch);
  make_views(whole_.dtype, [this](std::size_t unit, std::size_t slot) {
    const std::size_t begin = this->setup().units[unit].vectors ? vector_begins_[unit] : slot_begins_[slot];
    return static_cast<char*>(whole_.data) + begin * size_of(whole_.dtype);
  });
}

void GatheredParameters::set_rehearsing(bool rehearsing) {
  rehearse(rehearsing);
  if (rehearsing && whole_.data != nullptr) setup().compute.zero(whole_);
}

void GatheredParameters::place_units(int prefetch) {
  std::size_t at = 0;
  for (const ShardUnit& unit : setup().units) {
    vector_begins_.push_back(at);
    if (unit.vectors) at += align_elements(unit.weights.size());
  }
  const Sizes all = sizes(setup().layout, setup().units, prefetch), one = sizes(setup().layout, setup().units, 0);
  const auto add = [&](std::size_t elements) {
    slot_begins_.push_back(at);
    add_slot();
    at += elements;
  };
  if (all.table > 0) add(all.table);
  while (at < all.total()) add(one.slots);
}

void GatheredParameters::gather(std::size_t index, std::size_t begin) {
  const ShardUnit& unit = setup().units[index];
  const Tensor target = span(whole_, begin, unit.weights.size()), own = shards_->acquire(replicas_.transfer, index);
  const RowSplit rows(unit.cuts);
  if (replicas_.coded != nullptr && CodedUnits::codes(unit)) {
    replicas_.coded->gather(replicas_.transfer, own, target, index);
    return shards_->release(replicas_.transfer, index);
  }
  // Where copy engines can move matrices, all multiprocessors stay free for the computing blocks.
  if (PiecewiseTransfer* pieces = unit.vectors ? nullptr : replicas_.group.in_pieces()) {
    pieces->gather(replicas_.transfer, own, target, rows, [](std::int64_t, std::int64_t) {}, {});
  } else {
    replicas_.group.all_gather(replicas_.transfer, own, target, rows);
  }
  shards_->release(replicas_.transfer, index);
}

}  // namespace pipetrain
