#include "actors/training/activation_pool.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;
using schedules::StageNeeds;

namespace {

struct PlaceSizes {
  std::size_t count, bytes;
  std::size_t total() const { return count * bytes; }
};

// Of what is kept from F on: each chunk's own places, or, where that takes less, places of the largest chunk's size that serve
// them all. Schedules with several chunks hold fewer microbatches of all at once than the most of each together.
std::vector<PlaceSizes> saved_places(const StageModel& model, const StageNeeds& needs) {
  std::vector<PlaceSizes> own;
  PlaceSizes shared{0, 0};
  std::size_t total = 0;
  for (const auto& chunk : needs.chunks) {
    const std::size_t bytes = align_up(model.activation_bytes(static_cast<int>(own.size())).saved);
    own.push_back({static_cast<std::size_t>(chunk.peak_activations), bytes});
    shared.bytes = std::max(shared.bytes, bytes);
    total += own.back().total();
  }
  shared.count = static_cast<std::size_t>(std::lround(needs.peak_activations * static_cast<double>(own.size())));
  if (own.size() > 1 && shared.total() < total) return {shared};
  return own;
}

template <class T>
T* take_one(std::vector<T*>& free, const Action& action) {
  if (free.empty()) throw Error(ErrorKind::internal, to_string(action) + ": more microbatches in flight than the plan needs");
  T* const one = free.back();
  free.pop_back();
  return one;
}

PlaceSizes pending_places(const StageModel& model, const StageNeeds& needs, std::size_t chunk) {
  return {static_cast<std::size_t>(needs.chunks[chunk].peak_pending_weight_grads),
          align_up(model.activation_bytes(static_cast<int>(chunk)).pending)};
}

}  // namespace

ActivationPool::Places::Places(Device& device, std::size_t count, std::size_t bytes, const std::string& what)
    : memory(device.allocate(count * bytes, what)) {
  for (std::size_t i = 0; i < count; ++i) free.push_back(static_cast<char*>(memory.data()) + i * bytes);
}

ActivationPool::ActivationPool(const StageModel& model, const StageNeeds& needs, int microbatches, Device& device,
                               const std::string& owner)
    : model_(model) {
  for (const auto& [count, bytes] : saved_places(model, needs)) {
    saved_.emplace_back(device, count, bytes, owner + ": activations");
  }
  for (std::size_t i = 0; i < needs.chunks.size(); ++i) {
    const auto [count, bytes] = pending_places(model, needs, i);
    Chunk& chunk =
        chunks_.emplace_back(saved_.size() == 1 ? 0 : i, Places(device, count, bytes, owner + ": pending weight gradients"));
    for (int slot = 0; slot < needs.chunks[i].peak_activations; ++slot) {
      chunk.slots.push_back(model.make_slot(static_cast<int>(i)));
      chunk.free.push_back(chunk.slots.back().get());
    }
    chunk.held.resize(static_cast<std::size_t>(microbatches));
  }
}

std::size_t ActivationPool::bytes(const StageModel& model, const StageNeeds& needs) {
  std::size_t total = 0;
  for (const PlaceSizes& places : saved_places(model, needs)) total += places.total();
  for (std::size_t i = 0; i < needs.chunks.size(); ++i) total += pending_places(model, needs, i).total();
  return total;
}

ActivationSlot& ActivationPool::take(const Action& action) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  Held& held = chunk.held[static_cast<std::size_t>(action.microbatch)];
  if (action.kind == ActionKind::forward) {
    held.saved = take_one(saved_[chunk.saved].free, action);
    held.slot = take_one(chunk.free, action);
    model_.set_saved(action.chunk, *held.slot, held.saved);
  }
  if (held.slot == nullptr) throw Error(ErrorKind::internal, to_string(action) + " before its forward");
  if (action.kind == ActionKind::input_grad) {
    held.pending = take_one(chunk.pending.free, action);
    model_.set_pending(action.chunk, *held.slot, held.pending);
  }
  return *held.slot;
}

void ActivationPool::release(const Action& action, schedules::StepKind kind) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  Held& held = chunk.held[static_cast<std::size_t>(action.microbatch)];
  const ActionKind last = kind == schedules::StepKind::evaluation ? ActionKind::forward : ActionKind::weight_grad;
  if (!ends_life(last, action.kind)) return;
  if (action.kind == ActionKind::weight_grad) chunk.pending.free.push_back(held.pending);
  saved_[chunk.saved].free.push_back(held.saved);
  chunk.free.push_back(held.slot);
  held = {};
}

}  // namespace pipetrain
