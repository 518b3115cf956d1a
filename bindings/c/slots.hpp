// Slots of the C API: memory of the caller's as DLPack tensors, carried by the engine's slots.
#pragma once

#include <pipetrain/pipetrain.h>

#include <memory>
#include <vector>

#include "comm/slot.hpp"

namespace pipetrain::c_api {

// Slots of one queue. The engine's slots keep them; their end calls the tensors' deleters.
class SlotSet {
 public:
  explicit SlotSet(int count);
  // For make_slots to fill.
  std::vector<pipetrain_slot*> pointers() const;
  // After it was filled: checks the tensors, and gives each slot the shape of its tensor. Throws Error(input).
  std::vector<SlotHandle> handles() const;

 private:
  std::vector<std::shared_ptr<pipetrain_slot>> slots_;
};

// Null for none.
pipetrain_slot* slot_of(const SlotHandle& slot);

// What is wrong where the shape that the producer gave is none, or has more elements than the tensor; else empty.
std::string content_fault(const pipetrain_slot& slot);

}  // namespace pipetrain::c_api
