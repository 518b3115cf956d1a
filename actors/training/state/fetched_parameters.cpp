#include "actors/training/state/fetched_parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pipetrain {
namespace {

std::vector<Region> regions(const std::vector<ShardUnit>& units) {
  std::vector<Region> regions;
  for (const ShardUnit& unit : units) regions.push_back(unit.weights);
  return regions;
}

}  // namespace

std::size_t FetchedParameters::Sizes::bytes() const {
  return vectors + (slots.table ? table : 0) + slots.blocks * block + OffloadStorage::granularity;
}

FetchedParameters::Sizes FetchedParameters::sizes(const ParameterLayout& layout, const std::vector<ShardUnit>& units,
                                                  int prefetch, DType type) {
  Sizes sizes;
  sizes.slots = UnitSlots::slots(layout, units, prefetch);
  for (const ShardUnit& unit : units) {
    if (unit.tied_copy) continue;
    const std::size_t own = OffloadedArray::page_bytes(unit.weights, type);
    if (unit.vectors) {
      sizes.vectors += own;
    } else {
      std::size_t& slot = is_table(layout, unit) ? sizes.table : sizes.block;
      slot = std::max(slot, own);
    }
  }
  return sizes;
}

FetchedParameters::FetchedParameters(const Setup& setup, OffloadedArray& weights, int prefetch, UnitSlots::Sequences sequences)
    : setup_(setup),
      weights_(setup.device, weights, regions(setup.units)),
      unit_slots_(setup.layout, setup.units, prefetch, std::move(sequences),
                  [this](std::size_t slot, std::size_t unit) { fill(slot, unit); }),
      stepped_(setup.device.make_event()),
      vectors_fetched_(setup.device.make_event()) {
  constexpr std::uintptr_t granularity = OffloadStorage::granularity;
  const std::size_t bytes = sizes(setup.layout, setup.units, prefetch, weights_.type()).bytes();
  memory_ = setup.device.allocate(align_up(bytes), setup.rank + ": fetched parameters");
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1) / granularity * granularity;
  make_slots(reinterpret_cast<char*>(begin), prefetch);
  make_views();
}

void FetchedParameters::set_rehearsing(bool rehearsing) {
  rehearsing_ = rehearsing;
  const auto bytes = static_cast<std::int64_t>(memory_.bytes());
  if (rehearsing) setup_.compute.zero({memory_.data(), {bytes / 4}, DType::f32});
}

void FetchedParameters::make_slots(char* memory, int prefetch) {
  for (const ShardUnit& unit : setup_.units) {
    vector_pages_.push_back(unit.vectors ? memory : nullptr);
    if (unit.vectors) memory += OffloadedArray::page_bytes(unit.weights, weights_.type());
  }
  const Sizes all = sizes(setup_.layout, setup_.units, prefetch, weights_.type());
  for (std::size_t i = 0; i < all.slots.all(); ++i) {
    Slot slot;
    slot.pages = memory;
    slot.fetched = setup_.device.make_event();
    slot.released = setup_.device.make_event();
    slots_.push_back(std::move(slot));
    memory += all.slots.table && i == 0 ? all.table : all.block;
  }
}

void FetchedParameters::make_views() {
  for (const BlockParameters& block : setup_.layout.blocks) {
    auto& by_slot = views_.emplace_back(std::max<std::size_t>(slots_.size(), 1));
    for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
      auto& views = by_slot[slot];
      for (const StoredTensor& tensor : block.tensors) {
        const std::size_t unit = unit_with(setup_.units, tensor.offset);
        char* const begin = weights_.first(unit, vector_pages_[unit] != nullptr ? vector_pages_[unit] : slots_[slot].pages);
        const std::size_t offset = tensor.offset - setup_.units[unit].weights.begin;
        views.push_back({begin + offset * size_of(weights_.type()), tensor.shape, weights_.type()});
      }
    }
  }
}

void FetchedParameters::fill(std::size_t index, std::size_t unit) {
  Slot& slot = slots_[index];
  Stream& in = weights_.in();
  in.wait(*slot.released);
  weights_.fetch(unit, slot.pages);
  in.record(*slot.fetched);
  slot.on_its_way = true;
}

// The vectors are overwritten, so their readers of the previous step must have finished.
void FetchedParameters::begin_step(schedules::StepKind kind) {
  Stream& in = weights_.in();
  setup_.compute.record(*stepped_);
  in.wait(*stepped_);
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) {
    if (vector_pages_[unit] != nullptr) weights_.fetch(unit, vector_pages_[unit]);
  }
  in.record(*vectors_fetched_);
  vectors_on_their_way_ = true;
  unit_slots_.begin_step(kind);
}

Tensor FetchedParameters::settled() {
  if (std::exchange(vectors_on_their_way_, false)) setup_.compute.wait(*vectors_fetched_);
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) {
    if (vector_pages_[unit] == nullptr) continue;
    const auto elements = static_cast<std::int64_t>(setup_.units[unit].weights.size());
    return {weights_.first(unit, vector_pages_[unit]), {elements}, weights_.type()};
  }
  return {slots_.front().pages, {1}, weights_.type()};
}

const std::vector<Tensor>& FetchedParameters::acquire(std::size_t block) {
  if (!unit_slots_.takes_slot(block)) return settled(), views_[block].front();
  const bool of_table = is_table(setup_.layout, setup_.units[unit_slots_.unit_of(block)]);
  if (rehearsing_) return views_[block][of_table ? 0 : slots_.size() - 1];
  const std::size_t index = unit_slots_.acquire(block);
  settled();
  if (std::exchange(slots_[index].on_its_way, false)) setup_.compute.wait(*slots_[index].fetched);
  return views_[block][index];
}

void FetchedParameters::release(std::size_t block) {
  if (!rehearsing_ && unit_slots_.takes_slot(block)) setup_.compute.record(*slots_[unit_slots_.release(block)].released);
}

}  // namespace pipetrain
