#include "actors/training/state/gathered_parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/buffer.hpp"
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
    : setup_(setup),
      replicas_(replicas),
      shards_(std::move(shards)),
      unit_slots_(setup.layout, setup.units, prefetch, std::move(sequences),
                  [this](std::size_t slot, std::size_t unit) { fill(slot, unit); }),
      stepped_(setup.device.make_event()),
      vectors_gathered_(setup.device.make_event()) {
  const auto elements = static_cast<std::int64_t>(sizes(setup.layout, setup.units, prefetch).total());
  whole_ = {nullptr, {elements}, shards_->type()};
  memory_ = setup.device.allocate(align_up(whole_.bytes()), setup.rank + ": gathered parameters");
  whole_.data = memory_.data();
  make_slots(prefetch);
  make_views();
}

void GatheredParameters::set_rehearsing(bool rehearsing) {
  rehearsing_ = rehearsing;
  if (rehearsing && whole_.data != nullptr) setup_.compute.zero(whole_);
}

void GatheredParameters::make_slots(int prefetch) {
  const Sizes all = sizes(setup_.layout, setup_.units, prefetch), one = sizes(setup_.layout, setup_.units, 0);
  std::size_t at = all.vectors;
  const auto add = [&](std::size_t elements) {
    Slot slot;
    slot.begin = at;
    slot.gathered = setup_.device.make_event();
    slot.released = setup_.device.make_event();
    slots_.push_back(std::move(slot));
    at += elements;
  };
  if (all.table > 0) add(all.table);
  while (at < all.total()) add(one.slots);
}

void GatheredParameters::make_views() {
  std::size_t at = 0;
  for (const ShardUnit& unit : setup_.units) {
    vector_begins_.push_back(at);
    if (unit.vectors) at += align_elements(unit.weights.size());
  }
  const auto place = [this](std::size_t elements) {
    return static_cast<char*>(whole_.data) + elements * size_of(whole_.dtype);
  };
  for (const BlockParameters& block : setup_.layout.blocks) {
    auto& by_slot = views_.emplace_back(std::max<std::size_t>(slots_.size(), 1));
    for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
      auto& views = by_slot[slot];
      for (const StoredTensor& tensor : block.tensors) {
        const std::size_t index = unit_with(setup_.units, tensor.offset);
        const ShardUnit& unit = setup_.units[index];
        const std::size_t begin = unit.vectors ? vector_begins_[index] : slots_[slot].begin;
        views.push_back({place(begin + tensor.offset - unit.weights.begin), tensor.shape, whole_.dtype});
      }
    }
  }
}

void GatheredParameters::gather(std::size_t index, const Tensor& target) {
  const ShardUnit& unit = setup_.units[index];
  const Tensor own = shards_->acquire(replicas_.transfer, index);
  const RowSplit rows(unit.cuts);
  // Where copy engines can move matrices, all multiprocessors stay free for the computing blocks.
  if (PiecewiseTransfer* pieces = unit.vectors ? nullptr : replicas_.group.in_pieces()) {
    pieces->gather(replicas_.transfer, own, target, rows, [](std::int64_t, std::int64_t) {}, {});
  } else {
    replicas_.group.all_gather(replicas_.transfer, own, target, rows);
  }
  shards_->release(replicas_.transfer, index);
}

void GatheredParameters::begin_step(schedules::StepKind kind) {
  setup_.compute.record(*stepped_);
  replicas_.transfer.wait(*stepped_);
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) {
    if (!setup_.units[unit].vectors) continue;
    gather(unit, span(whole_, vector_begins_[unit], setup_.units[unit].weights.size()));
  }
  replicas_.transfer.record(*vectors_gathered_);
  vectors_on_their_way_ = true;
  unit_slots_.begin_step(kind);
}

Tensor GatheredParameters::settled() {
  if (std::exchange(vectors_on_their_way_, false)) setup_.compute.wait(*vectors_gathered_);
  return whole_;
}

void GatheredParameters::fill(std::size_t index, std::size_t unit) {
  Slot& slot = slots_[index];
  replicas_.transfer.wait(*slot.released);
  gather(unit, span(whole_, slot.begin, setup_.units[unit].weights.size()));
  replicas_.transfer.record(*slot.gathered);
  slot.on_its_way = true;
}

const std::vector<Tensor>& GatheredParameters::acquire(std::size_t block) {
  if (!unit_slots_.takes_slot(block)) return settled(), views_[block].front();
  const bool of_table = is_table(setup_.layout, setup_.units[unit_slots_.unit_of(block)]);
  if (rehearsing_) return views_[block][of_table ? 0 : slots_.size() - 1];
  const std::size_t index = unit_slots_.acquire(block);
  settled();
  if (std::exchange(slots_[index].on_its_way, false)) setup_.compute.wait(*slots_[index].gathered);
  return views_[block][index];
}

void GatheredParameters::release(std::size_t block) {
  if (!rehearsing_ && unit_slots_.takes_slot(block)) setup_.compute.record(*slots_[unit_slots_.release(block)].released);
}

}  // namespace pipetrain
