#include "actors/training/places/unit_slots.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace pipetrain {

std::size_t unit_with(const std::vector<ShardUnit>& units, std::size_t offset) {
  const auto found = std::find_if(units.begin(), units.end(), [offset](const ShardUnit& unit) {
    return !unit.tied_copy && offset >= unit.weights.begin && offset < unit.weights.end;
  });
  assert(found != units.end());
  return static_cast<std::size_t>(found - units.begin());
}

bool is_table(const ParameterLayout& layout, const ShardUnit& unit) {
  const BlockKind kind = layout.blocks[unit.block].block.kind;
  return kind == BlockKind::embedding || kind == BlockKind::mtp || kind == BlockKind::head;
}

UnitSlots::Slots UnitSlots::slots(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int prefetch) {
  Slots slots;
  for (const ShardUnit& unit : units) {
    if (unit.vectors) continue;
    if (is_table(layout, unit)) {
      slots.table = true;
    } else {
      ++slots.blocks;
    }
  }
  slots.blocks = std::min(slots.blocks, static_cast<std::size_t>(prefetch) + 1);
  return slots;
}

UnitSlots::UnitSlots(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int prefetch, Sequences sequences,
                     Fill fill)
    : layout_(layout),
      units_(units),
      depth_(static_cast<std::size_t>(prefetch)),
      sequences_(std::move(sequences)),
      fill_(std::move(fill)) {
  const Slots all = slots(layout, units, prefetch);
  slots_.resize(all.all());
  if (all.table) slots_.front().table = true;
  for (const BlockParameters& block : layout.blocks) {
    unit_of_.push_back(units.size());
    for (const StoredTensor& tensor : block.tensors) {
      const std::size_t unit = unit_with(units, tensor.offset);
      if (!units[unit].vectors) unit_of_.back() = unit;
    }
  }
  for (auto* const sequence : {&sequences_.training, &sequences_.evaluation})
    std::erase_if(*sequence, [this](std::size_t block) { return !takes_slot(block); });
}

void UnitSlots::begin_step(schedules::StepKind kind) {
  sequence_ = kind == schedules::StepKind::evaluation ? sequences_.evaluation : sequences_.training;
  for (Slot& slot : slots_) {
    assert(!slot.held);
    slot.unit.reset();
  }
  position_ = 0;
  prefetch();
}

UnitSlots::Slot* UnitSlots::holder(std::size_t unit) {
  for (Slot& slot : slots_) {
    if (slot.unit == unit) return &slot;
  }
  return nullptr;
}

UnitSlots::Slot* UnitSlots::free_slot(std::size_t unit, const std::vector<std::size_t>& soon) {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    const bool needed = slot.held || (slot.unit && std::find(soon.begin(), soon.end(), *slot.unit) != soon.end());
    if (slot.table != of_table(unit) || needed) continue;
    if (oldest == nullptr || slot.used < oldest->used) oldest = &slot;
  }
  return oldest;
}

// Fills slots for the next block and the `prefetch` blocks after it, as far as slots are free.
void UnitSlots::prefetch() {
  std::vector<std::size_t> soon;
  for (std::size_t at = position_; at < sequence_.size() && soon.size() < depth_ + 1; ++at) {
    const std::size_t unit = unit_of_[sequence_[at]];
    if (std::find(soon.begin(), soon.end(), unit) != soon.end()) continue;
    soon.push_back(unit);
    if (holder(unit) != nullptr) continue;
    Slot* slot = free_slot(unit, soon);
    if (slot == nullptr) return;
    fill_(index(*slot), unit);
    slot->unit = unit;
    slot->used = ++clock_;
  }
}

std::size_t UnitSlots::acquire(std::size_t block) {
  const std::size_t unit = unit_of_[block];
  assert(position_ < sequence_.size() && sequence_[position_] == block);
  if (holder(unit) == nullptr) prefetch();
  Slot& slot = *holder(unit);
  slot.held = true;
  ++position_;
  prefetch();
  return index(slot);
}

std::size_t UnitSlots::release(std::size_t block) {
  Slot& slot = *holder(unit_of_[block]);
  slot.held = false;
  slot.used = ++clock_;
  return index(slot);
}

}  // namespace pipetrain
