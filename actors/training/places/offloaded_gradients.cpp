#include "actors/training/places/offloaded_gradients.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "actors/training/places/unit_slots.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t most_gradient_slots = 3;  // one is fetched, one added to, one stored

constexpr std::size_t page = OffloadStorage::granularity / sizeof(float);

std::size_t whole_pages(std::size_t elements) { return (elements + page - 1) / page * page; }

// A slot has room for any offloaded unit.
std::size_t slot_length(const ParameterLayout& layout, const std::vector<ShardUnit>& units) {
  std::size_t largest = 0;
  for (const ShardUnit& unit : units) {
    if (leaves_with_gradients(layout, unit)) largest = std::max(largest, whole_pages(unit.weights.size()));
  }
  return largest;
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
  const std::size_t slots = std::min(count, most_gradient_slots), largest = slot_length(layout, units);
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

LeavingGradients leaving_gradients(const ShardUnit& unit, const GradientRanges& ranges) {
  const Region run = unit.run(ranges.replica);
  LeavingGradients leaving;
  if (!ranges.leave_summed) leaving.before = {0, whole_pages(unit.weights.size())};
  if (run.size() > 0) leaving.after = {run.begin / page * page, whole_pages(run.end)};
  return leaving;
}

OffloadedArray::Lengths outside_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units,
                                          const GradientRanges& ranges) {
  OffloadedArray::Lengths lengths;
  for (const ShardUnit& unit : units) {
    if (!leaves_with_gradients(layout, unit)) continue;
    const std::size_t elements = leaving_gradients(unit, ranges).all().size();
    lengths.elements += elements;
    lengths.largest = std::max(lengths.largest, elements);
  }
  return lengths;
}

OffloadedGradients::OffloadedGradients(const Setup& setup, OffloadedArray& outside, const std::vector<void*>& slots)
    : setup_(setup), outside_(outside), unit_of_(setup.layout.blocks.size()) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Unit& unit = units_.emplace_back();
    if (slots[i] == nullptr) continue;
    unit_of_[setup.units[i].block] = i;
    unit.leaving = leaving_gradients(setup.units[i], setup.ranges);
    unit.outside = at;
    unit.slot = slot_at(slots[i]);
    unit.stored = setup.device.make_event();
    at += unit.leaving.all().size();
  }
}

Region OffloadedGradients::place(const Unit& unit) const {
  const std::size_t begin = unit.outside + leaving(unit).begin - unit.leaving.all().begin;
  return {begin, begin + leaving(unit).size()};
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
  for (Unit& unit : units_) unit.begun = unit.summed = false;
  for (Slot& slot : slots_) slot.unit.reset();
}

// Fetches the unit into its slot, once the slot's previous unit has been stored and has no reader left.
void OffloadedGradients::bring(std::size_t unit) {
  Slot& slot = slot_of(unit);
  if (slot.unit == unit) return;
  Stream& in = *outside_.streams().in;
  in.wait(*slot.done);
  in.wait(*slot.stored);
  if (units_[unit].begun && leaving(units_[unit]).size() > 0) {
    in.wait(*units_[unit].stored);
    outside_.fetch(place(units_[unit]), static_cast<float*>(slot.memory) + leaving(units_[unit]).begin);
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
  setup_.compute.wait(*slot_of(*unit_of_[block]).stored);  // of the previous microbatch, if that is not finished yet
  const bool same_chunk = block > 0 && setup_.layout.blocks[block - 1].chunk == setup_.layout.blocks[block].chunk;
  if (same_chunk && unit_of_[block - 1]) bring(*unit_of_[block - 1]);
}

void OffloadedGradients::close(std::size_t block, bool last) {
  if (!unit_of_[block]) return;
  const std::size_t unit = *unit_of_[block];
  assert(slot_of(unit).unit == unit);
  setup_.compute.record(*slot_of(unit).done);
  units_[unit].begun = true;
  if (last && setup_.sum) sum_replicas(unit);
  store(unit);
}

bool OffloadedGradients::holds(const Tensor& grads) const {
  return std::any_of(units_.begin(), units_.end(), [&](const Unit& unit) {
    if (!unit.slot) return false;
    const auto* const begin = static_cast<const float*>(slots_[*unit.slot].memory);
    return grads.as<float>() >= begin && grads.as<float>() < begin + setup_.units[&unit - units_.data()].weights.size();
  });
}

void OffloadedGradients::sum(int chunk) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!units_[i].slot || units_[i].summed || setup_.units[i].chunk != chunk) continue;
    bring(i);
    Slot& slot = slot_of(i);
    if (std::exchange(slot.on_its_way, false)) setup_.transfer->wait(*slot.fetched);
    setup_.transfer->wait(*slot.stored);  // of the last microbatch, if that is not finished yet
    sum_replicas(i);
    store(i);
  }
}

// The contents of the slot are complete once `done` has been reached.
void OffloadedGradients::sum_replicas(std::size_t unit) {
  Slot& slot = slot_of(unit);
  setup_.transfer->wait(*slot.done);
  setup_.sum(*setup_.transfer, unit);
  setup_.transfer->record(*slot.done);
  units_[unit].summed = true;
}

void OffloadedGradients::store(std::size_t unit) {
  Slot& slot = slot_of(unit);
  Stream& out = *outside_.streams().out;
  out.wait(*slot.done);
  const Region leaves = leaving(units_[unit]);
  if (leaves.size() > 0) outside_.store(place(units_[unit]), static_cast<float*>(slot.memory) + leaves.begin);
  out.record(*units_[unit].stored);
  out.record(*slot.stored);
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
