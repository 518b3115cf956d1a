#include "actors/training/activation_pool.hpp"

#include <utility>

#include "core/error.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;

ActivationPool::ActivationPool(const StageModel& model, int chunk, const schedules::ChunkNeeds& needs, int microbatches,
                               Device& device, const std::string& owner)
    : model_(model), chunk_(chunk), in_use_(static_cast<std::size_t>(microbatches)), pending_in_use_(in_use_.size()) {
  const ActivationBytes each = model.activation_bytes(chunk);
  const auto saved = align_up(each.saved), pending = align_up(each.pending);
  const auto slots = static_cast<std::size_t>(needs.peak_activations);
  const auto pending_slots = static_cast<std::size_t>(needs.peak_pending_weight_grads);
  saved_memory_ = device.allocate(slots * saved, owner + ": activations");
  pending_memory_ = device.allocate(pending_slots * pending, owner + ": pending weight gradients");
  for (std::size_t i = 0; i < slots; ++i) {
    slots_.push_back(model.make_slot(chunk, static_cast<char*>(saved_memory_.data()) + i * saved));
    free_.push_back(slots_.back().get());
  }
  for (std::size_t i = 0; i < pending_slots; ++i) {
    free_pending_.push_back(static_cast<char*>(pending_memory_.data()) + i * pending);
  }
}

std::size_t ActivationPool::bytes(const ActivationBytes& each, const schedules::ChunkNeeds& needs) {
  return static_cast<std::size_t>(needs.peak_activations) * align_up(each.saved) +
         static_cast<std::size_t>(needs.peak_pending_weight_grads) * align_up(each.pending);
}

ActivationSlot& ActivationPool::take(const Action& action) {
  const auto at = static_cast<std::size_t>(action.microbatch);
  const auto move_one = [&](auto& free, auto& in_use) {
    if (free.empty()) throw Error(ErrorKind::internal, to_string(action) + ": more microbatches in flight than the plan needs");
    in_use[at] = free.back();
    free.pop_back();
  };
  if (action.kind == ActionKind::forward) move_one(free_, in_use_);
  if (in_use_[at] == nullptr) throw Error(ErrorKind::internal, to_string(action) + " before its forward");
  if (action.kind == ActionKind::input_grad) {
    move_one(free_pending_, pending_in_use_);
    model_.set_pending(chunk_, *in_use_[at], pending_in_use_[at]);
  }
  return *in_use_[at];
}

void ActivationPool::release(const Action& action) {
  const auto at = static_cast<std::size_t>(action.microbatch);
  if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_grad) {
    free_.push_back(std::exchange(in_use_[at], nullptr));
  }
  if (action.kind == ActionKind::weight_grad) free_pending_.push_back(std::exchange(pending_in_use_[at], nullptr));
}

}  // namespace pipetrain
