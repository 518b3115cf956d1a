#include "actors/training/offloaded_gradients.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "actors/training/unit_turns.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t most_slots = 3;  // one comes, one is added to, one goes

std::size_t whole_pages(std::size_t elements) {
  constexpr std::size_t page = OffloadPlace::granularity / sizeof(float);
  return (elements + page - 1) / page * page;
}

}  // namespace

bool leaves_with_gradients(const ParameterLayout& layout, const ShardUnit& unit) {
  return !unit.vectors && !unit.tied_copy && !is_table(layout, unit);
}

GradientPool gradient_slots(const ParameterLayout& layout, const std::vector<ShardUnit>& units) {
  GradientPool pool;
  pool.begins.resize(units.size());
  std::size_t count = 0;
  for (const ShardUnit& unit : units) count += leaves_with_gradients(layout, unit) ? 1 : 0;
  const std::size_t slots = std::min(count, most_slots), largest = outside_gradients(layout, units).largest;
  pool.length = slots * largest;
  std::size_t next = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Region zeroed = layout.zeroed_grads[static_cast<std::size_t>(units[i].chunk)];
    if (leaves_with_gradients(layout, units[i])) {
      pool.begins[i] = next++ % slots * largest;
    } else if (units[i].grads >= zeroed.end) {
      pool.begins[i] = pool.length;
      pool.length += whole_pages(units[i].weights.size());
    }
  }
  return pool;
}

OffloadedArray::Lengths outside_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units) {
  OffloadedArray::Lengths lengths;
  for (const ShardUnit& unit : units) {
    if (!leaves_with_gradients(layout, unit)) continue;
    lengths.elements += whole_pages(unit.weights.size());
    lengths.largest = std::max(lengths.largest, whole_pages(unit.weights.size()));
  }
  return lengths;
}

OffloadedGradients::OffloadedGradients(const Setup& setup, OffloadedArray& outside, const std::vector<void*>& slots)
    : setup_(setup), outside_(outside), unit_of_(setup.layout.blocks.size()) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Unit& unit = units_.emplace_back();
    if (slots[i] == nullptr) continue;
    const std::size_t elements = whole_pages(setup.units[i].weights.size());
    unit_of_[setup.units[i].block] = i;
    unit.outside = {at, at + elements};
    unit.slot = slot_at(slots[i]);
    unit.stored = setup.device.make_event();
    at += elements;
  }
}

std::size_t OffloadedGradients::slot_at(void* memory) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.memory == memory; });
  if (found != slots_.end()) return static_cast<std::size_t>(found - slots_.begin());
  Slot slot;
  slot.memory = memory;
  slot.fetched = setup_.device.make_event();
  slot.done = setup_.device.make_event();
  slot.stored = setup_.device.make_event();
  slots_.push_back(std::move(slot));
  return slots_.size() - 1;
}

void OffloadedGradients::begin_step() {
  for (Unit& unit : units_) unit.begun = false;
  for (Slot& slot : slots_) slot.unit.reset();
}

// Into its slot, once what was there before has gone and is read no more.
void OffloadedGradients::bring(std::size_t unit) {
  Slot& slot = slot_of(unit);
  if (slot.unit == unit) return;
  Stream& in = *outside_.streams().in;
  in.wait(*slot.done);
  in.wait(*slot.stored);
  if (units_[unit].begun) {
    in.wait(*units_[unit].stored);
    outside_.fetch(units_[unit].outside, slot.memory);
  }
  in.record(*slot.fetched);
  slot.unit = unit;
  slot.on_its_way = true;
}

void OffloadedGradients::use(std::size_t unit) {
  bring(unit);
  if (std::exchange(slot_of(unit).on_its_way, false)) setup_.compute.wait(*slot_of(unit).fetched);
}

void OffloadedGradients::open(std::size_t block) {
  if (!unit_of_[block]) return;
  use(*unit_of_[block]);
  setup_.compute.wait(*slot_of(*unit_of_[block]).stored);  // of the microbatch before, if it is still there
  const bool goes_on = block > 0 && setup_.layout.blocks[block - 1].chunk == setup_.layout.blocks[block].chunk;
  if (goes_on && unit_of_[block - 1]) bring(*unit_of_[block - 1]);
}

void OffloadedGradients::close(std::size_t block) {
  if (!unit_of_[block]) return;
  const std::size_t unit = *unit_of_[block];
  Slot& slot = slot_of(unit);
  assert(slot.unit == unit);
  setup_.compute.record(*slot.done);
  Stream& out = *outside_.streams().out;
  out.wait(*slot.done);
  outside_.store(units_[unit].outside, slot.memory);
  out.record(*units_[unit].stored);
  out.record(*slot.stored);
  units_[unit].begun = true;
}

void OffloadedGradients::read(std::optional<std::size_t> unit) {
  if (unit && !units_[*unit].slot) return;
  if (read_ == unit) return;
  if (read_) setup_.compute.record(*slot_of(*read_).done);
  read_ = unit;
  if (!unit) return;
  use(*unit);
  const auto next = std::find_if(units_.begin() + static_cast<std::ptrdiff_t>(*unit) + 1, units_.end(),
                                 [](const Unit& one) { return one.slot.has_value(); });
  if (next != units_.end()) bring(static_cast<std::size_t>(next - units_.begin()));
}

}  // namespace pipetrain
