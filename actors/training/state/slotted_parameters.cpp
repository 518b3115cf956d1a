#include "actors/training/state/slotted_parameters.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {

SlottedParameters::SlottedParameters(const Setup& setup, int prefetch, UnitSlots::Sequences sequences)
    : setup_(setup),
      unit_slots_(setup.layout, setup.units, prefetch, std::move(sequences),
                  [this](std::size_t slot, std::size_t unit) { fill(slot, unit); }),
      stepped_(setup.device.make_event()),
      vectors_brought_(setup.device.make_event()) {}

void SlottedParameters::add_slot() {
  slots_.push_back({.brought = setup_.device.make_event(), .released = setup_.device.make_event()});
}

void SlottedParameters::make_views(DType type, const std::function<char*(std::size_t, std::size_t)>& place) {
  for (const BlockParameters& block : setup_.layout.blocks) {
    auto& by_slot = views_.emplace_back(std::max<std::size_t>(slots_.size(), 1));
    for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
      for (const StoredTensor& tensor : block.tensors) {
        const std::size_t unit = unit_with(setup_.units, tensor.offset);
        const std::size_t offset = tensor.offset - setup_.units[unit].weights.begin;
        by_slot[slot].push_back({place(unit, slot) + offset * size_of(type), tensor.shape, type});
      }
    }
  }
}

void SlottedParameters::fill(std::size_t index, std::size_t unit) {
  Slot& slot = slots_[index];
  transfer().wait(*slot.released);
  bring(unit, index);
  transfer().record(*slot.brought);
  slot.on_its_way = true;
}

// The vectors are overwritten, so their readers of the previous step must have finished.
void SlottedParameters::begin_step(schedules::StepKind kind) {
  setup_.compute.record(*stepped_);
  transfer().wait(*stepped_);
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) {
    if (setup_.units[unit].vectors) bring_vectors(unit);
  }
  transfer().record(*vectors_brought_);
  vectors_on_their_way_ = true;
  unit_slots_.begin_step(kind);
}

void SlottedParameters::wait_for_vectors() {
  if (std::exchange(vectors_on_their_way_, false)) setup_.compute.wait(*vectors_brought_);
}

const std::vector<Tensor>& SlottedParameters::acquire(std::size_t block) {
  if (!unit_slots_.takes_slot(block)) return wait_for_vectors(), views_[block].front();
  const bool of_table = is_table(setup_.layout, setup_.units[unit_slots_.unit_of(block)]);
  if (rehearsing_) return views_[block][of_table ? 0 : slots_.size() - 1];
  const std::size_t index = unit_slots_.acquire(block);
  wait_for_vectors();
  if (std::exchange(slots_[index].on_its_way, false)) setup_.compute.wait(*slots_[index].brought);
  return views_[block][index];
}

void SlottedParameters::release(std::size_t block) {
  if (!rehearsing_ && unit_slots_.takes_slot(block)) setup_.compute.record(*slots_[unit_slots_.release(block)].released);
}

}  // namespace pipetrain
