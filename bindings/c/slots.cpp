#include "bindings/c/slots.hpp"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace pipetrain::c_api {

namespace {

constexpr int most_axes = sizeof(pipetrain_slot::shape) / sizeof(pipetrain_slot::shape[0]);

void free_slot(pipetrain_slot* slot) {
  if (slot->tensor != nullptr && slot->tensor->deleter != nullptr) slot->tensor->deleter(slot->tensor);
  delete slot;
}

// Returns false where an axis is negative, or the product too large.
bool count_elements(const int64_t* shape, int axes, int64_t& elements) {
  elements = 1;
  for (int axis = 0; axis < axes; ++axis)
    if (shape[axis] < 0 || __builtin_mul_overflow(elements, shape[axis], &elements)) return false;
  return true;
}

bool is_dense(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t stride = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= std::max<int64_t>(tensor.shape[axis], 1);
  }
  return true;
}

void check_tensor(const DLTensor& tensor) {
  int64_t elements = 0;
  if (tensor.ndim < 0 || tensor.ndim > most_axes || (tensor.ndim > 0 && tensor.shape == nullptr) ||
      !count_elements(tensor.shape, tensor.ndim, elements))
    throw Error(ErrorKind::input, "make_slots: a tensor has no shape of at most " + std::to_string(most_axes) + " axes");
  if (!is_dense(tensor)) throw Error(ErrorKind::input, "make_slots: a tensor has gaps; give dense row-major ones");
}

}  // namespace

SlotSet::SlotSet(int count) {
  for (int i = 0; i < count; ++i) {
    auto* slot = new pipetrain_slot{};
    slot->struct_size = sizeof(pipetrain_slot);
    slots_.emplace_back(slot, free_slot);
  }
}

std::vector<pipetrain_slot*> SlotSet::pointers() const {
  std::vector<pipetrain_slot*> pointers;
  for (const auto& slot : slots_) pointers.push_back(slot.get());
  return pointers;
}

std::vector<SlotHandle> SlotSet::handles() const {
  std::vector<SlotHandle> handles;
  for (const auto& slot : slots_) {
    slot->struct_size = sizeof(pipetrain_slot);
    if (slot->tensor != nullptr) {
      const DLTensor& tensor = slot->tensor->dl_tensor;
      check_tensor(tensor);
      slot->ndim = tensor.ndim;
      std::copy_n(tensor.shape, tensor.ndim, slot->shape);
    }
    auto& handle = handles.emplace_back(std::make_shared<Slot>());
    handle->owner = slot;
  }
  return handles;
}

pipetrain_slot* slot_of(const SlotHandle& slot) { return slot ? static_cast<pipetrain_slot*>(slot->owner.get()) : nullptr; }

std::string content_fault(const pipetrain_slot& slot) {
  int64_t elements = 0, room = 0;
  if (slot.ndim < 0 || slot.ndim > most_axes || !count_elements(slot.shape, slot.ndim, elements))
    return "its producer gave it no shape of at most " + std::to_string(most_axes) + " axes";
  if (slot.tensor == nullptr) return {};
  count_elements(slot.tensor->dl_tensor.shape, slot.tensor->dl_tensor.ndim, room);
  if (elements <= room) return {};
  return "its producer gave it " + std::to_string(elements) + " elements, its slot has room for " + std::to_string(room);
}

}  // namespace pipetrain::c_api
