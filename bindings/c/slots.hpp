// Slots of the C API: the caller's memory as DLPack tensors, carried in the engine's slots.
#pragma once

#include <pipetrain/pipetrain.h>

#include <memory>
#include <vector>

#include "comm/slot.hpp"

namespace pipetrain::c_api {

// The slots of one queue. The engine's slots keep them alive; their destruction calls the tensors' deleters.
class SlotSet {
 public:
  explicit SlotSet(int count);
  // Returns the slots for make_slots to fill.
  std::vector<pipetrain_slot*> pointers() const;
  // Called after make_slots: checks the tensors, and gives each slot the shape of its tensor. Throws Error(input).
  std::vector<SlotHandle> handles() const;

 private:
  std::vector<std::shared_ptr<pipetrain_slot>> slots_;
};

// Returns null if there is none.
pipetrain_slot* slot_of(const SlotHandle& slot);

// Returns the fault of the shape that the producer gave, if it is invalid or has more elements than the tensor; else empty.
std::string content_fault(const pipetrain_slot& slot);

}  // namespace pipetrain::c_api
