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
    : SlottedParameters(setup, prefetch, std::move(sequences)), weights_(setup.device, weights, regions(setup.units)) {
  constexpr std::uintptr_t granularity = OffloadStorage::granularity;
  const std::size_t bytes = sizes(setup.layout, setup.units, prefetch, weights_.type()).bytes();
  memory_ = setup.device.allocate(align_up(bytes), setup.rank + ": fetched parameters");
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1) / granularity * granularity;
  place_pages(reinterpret_cast<char*>(begin), prefetch);
  make_views(weights_.type(), [this](std::size_t unit, std::size_t slot) {
    return weights_.first(unit, vector_pages_[unit] != nullptr ? vector_pages_[unit] : slot_pages_[slot]);
  });
}

void FetchedParameters::set_rehearsing(bool rehearsing) {
  rehearse(rehearsing);
  const auto bytes = static_cast<std::int64_t>(memory_.bytes());
  if (rehearsing) setup().compute.zero({memory_.data(), {bytes / 4}, DType::f32});
}

void FetchedParameters::place_pages(char* memory, int prefetch) {
  for (const ShardUnit& unit : setup().units) {
    vector_pages_.push_back(unit.vectors ? memory : nullptr);
    if (unit.vectors) memory += OffloadedArray::page_bytes(unit.weights, weights_.type());
  }
  const Sizes all = sizes(setup().layout, setup().units, prefetch, weights_.type());
  for (std::size_t i = 0; i < all.slots.all(); ++i) {
    slot_pages_.push_back(memory);
    add_slot();
    memory += all.slots.table && i == 0 ? all.table : all.block;
  }
}

Tensor FetchedParameters::settled() {
  wait_for_vectors();
  for (std::size_t unit = 0; unit < setup().units.size(); ++unit) {
    if (vector_pages_[unit] == nullptr) continue;
    const auto elements = static_cast<std::int64_t>(setup().units[unit].weights.size());
    return {weights_.first(unit, vector_pages_[unit]), {elements}, weights_.type()};
  }
  return {slot_pages_.front(), {1}, weights_.type()};
}

}  // namespace pipetrain
