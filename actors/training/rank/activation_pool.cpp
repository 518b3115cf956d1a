#include "actors/training/rank/activation_pool.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;
using schedules::StageNeeds;

namespace {

struct BlockSizes {
  std::size_t count, bytes;
  std::size_t total() const { return count * bytes; }
};

// Transfers begin and end at multiples of their granularity.
std::size_t saved_bytes(const StageModel& model, const StageNeeds& needs, std::size_t chunk) {
  if (OffloadedActivations::needed(needs)) return OffloadedActivations::place_bytes(model, chunk);
  return align_up(model.activation_bytes(static_cast<int>(chunk)).saved);
}

// Returns the memory of activations, which are kept from F on: either each chunk has its own blocks, or blocks of the largest
// chunk's size serve all chunks, whichever takes less. With several chunks, a schedule holds fewer microbatches of all
// chunks at once than the sum of each chunk's maximum.
std::vector<BlockSizes> saved_blocks(const StageModel& model, const StageNeeds& needs) {
  std::vector<BlockSizes> own;
  BlockSizes shared{0, 0};
  std::size_t total = 0;
  for (const auto& chunk : needs.chunks) {
    const std::size_t bytes = saved_bytes(model, needs, own.size());
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

BlockSizes pending_blocks(const StageModel& model, const StageNeeds& needs, std::size_t chunk) {
  return {static_cast<std::size_t>(needs.chunks[chunk].peak_pending_weight_grads),
          align_up(model.activation_bytes(static_cast<int>(chunk)).pending)};
}

// Room to align the first block to the granularity.
std::size_t slack(const StageNeeds& needs) { return OffloadedActivations::needed(needs) ? OffloadStorage::granularity : 0; }

}  // namespace

ActivationPool::MemoryBlocks::MemoryBlocks(Device& device, std::size_t bytes, const std::string& what)
    : memory(device.allocate(bytes, what)) {}

void ActivationPool::MemoryBlocks::divide(std::size_t count, std::size_t bytes, std::size_t alignment) {
  auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  if (alignment > 0) at = (at + alignment - 1) / alignment * alignment;
  all.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i].memory = reinterpret_cast<char*>(at) + i * bytes;
    free.push_back(&all[i]);
  }
}

ActivationPool::ActivationPool(const Setup& setup) : model_(setup.model), slices_(setup.slices), compute_(setup.compute) {
  Device& device = setup.compute.device();
  const StageNeeds& needs = setup.needs;
  if (OffloadedActivations::needed(needs))
    outside_.emplace(OffloadedActivations::Setup{device, setup.folder, setup.owner}, model_, needs);
  for (const auto& [count, bytes] : saved_blocks(model_, needs)) {
    MemoryBlocks& blocks = saved_.emplace_back(device, count * bytes + slack(needs), setup.owner + ": activations");
    blocks.divide(count, bytes, slack(needs));
    for (MemoryBlock& block : blocks.all)
      if (outside_) block.last_use = device.make_event();
  }
  for (std::size_t i = 0; i < needs.chunks.size(); ++i) {
    const auto [count, bytes] = pending_blocks(model_, needs, i);
    Chunk& chunk = chunks_.emplace_back(saved_.size() == 1 ? 0 : i,
                                        MemoryBlocks(device, count * bytes, setup.owner + ": pending weight gradients"));
    chunk.pending.divide(count, bytes, 0);
    for (int slot = 0; slot < needs.chunks[i].peak_activations + needs.chunks[i].peak_offloaded; ++slot) {
      chunk.slots.push_back(model_.make_slot(static_cast<int>(i)));
      chunk.free.push_back(chunk.slots.back().get());
    }
    chunk.held.resize(static_cast<std::size_t>(setup.microbatches));
  }
}

std::size_t ActivationPool::bytes(const StageModel& model, const StageNeeds& needs) {
  std::size_t total = 0;
  for (const BlockSizes& blocks : saved_blocks(model, needs)) total += blocks.total() + slack(needs);
  for (std::size_t i = 0; i < needs.chunks.size(); ++i) total += pending_blocks(model, needs, i).total();
  return total;
}

// Compute takes a block that compute released, if there is one, because it need not wait for that. A transfer takes the
// block that has been free the longest.
ActivationPool::MemoryBlock* ActivationPool::take_saved(const Action& action, bool for_transfer) {
  auto& free = saved_[chunk(action).saved].free;
  if (!outside_) return take_one(free, action);
  const auto better = [for_transfer](const MemoryBlock* a, const MemoryBlock* b) {
    if (for_transfer || (a->moved && b->moved)) return a->released < b->released;
    return a->moved != b->moved ? b->moved : a->released > b->released;
  };
  const auto best = std::min_element(free.begin(), free.end(), better);
  if (best != free.end()) std::iter_swap(best, std::prev(free.end()));
  return take_one(free, action);
}

void ActivationPool::release_saved(const Action& action, bool moved) {
  Held& own = held(action);
  own.saved->moved = moved;
  own.saved->released = ++releases_;
  saved_[chunk(action).saved].free.push_back(own.saved);
  own.saved = nullptr;
}

ActivationSlot& ActivationPool::take(const Action& action) {
  Held& own = held(action);
  if (action.kind == ActionKind::forward) {
    own.saved = take_saved(action, false);
    if (own.saved->moved) compute_.wait(*own.saved->last_use);
    own.slot = take_one(chunk(action).free, action);
    model_.set_saved(action.chunk, *own.slot, own.saved->memory);
  }
  if (own.slot == nullptr) throw Error(ErrorKind::internal, to_string(action) + " before its forward");
  if (std::exchange(own.came_back, false)) compute_.wait(*own.saved->last_use);
  if (action.kind == ActionKind::input_grad) {
    own.pending = take_one(chunk(action).pending.free, action);
    model_.set_pending(action.chunk, *own.slot, own.pending->memory);
  }
  return *own.slot;
}

std::vector<ActivationSlot*> ActivationPool::earlier_slices(const Action& action) {
  std::vector<ActivationSlot*> slots;
  for (Action one = action; one.microbatch % slices_ != 0;) {
    --one.microbatch;
    slots.insert(slots.begin(), held(one).slot);
  }
  return slots;
}

// Without a backward, the last slice is the last reader of what earlier slices keep.
void ActivationPool::release(const Action& action, schedules::StepKind kind) {
  const bool evaluates = kind == schedules::StepKind::evaluation;
  if (!ends_life(evaluates ? ActionKind::forward : ActionKind::weight_grad, action.kind)) return;
  if (!evaluates) return release_slot(action);
  if (action.microbatch % slices_ != slices_ - 1) return;
  for (Action one = action; one.microbatch > action.microbatch - slices_; --one.microbatch) release_slot(one);
}

void ActivationPool::release_slot(const Action& action) {
  Held& own = held(action);
  if (action.kind == ActionKind::weight_grad) chunk(action).pending.free.push_back(own.pending);
  if (outside_) compute_.record(*own.saved->last_use);
  release_saved(action, false);
  chunk(action).free.push_back(own.slot);
  own = {};
}

void ActivationPool::take_back(const Action& forward) { release(forward, schedules::StepKind::evaluation); }

Stream& ActivationPool::begin_move(const Action& action) {
  Held& own = held(action);
  if (own.slot == nullptr || !outside_) throw Error(ErrorKind::internal, to_string(action) + " before its forward");
  if (action.kind == ActionKind::offload) {
    own.outside = &outside_->begin_out(static_cast<std::size_t>(action.chunk));
    compute_.record(*own.saved->last_use);
    outside_->out().wait(*own.saved->last_use);
    return outside_->out();
  }
  own.saved = take_saved(action, true);
  outside_->begin_in(*own.outside);
  outside_->in().wait(*own.saved->last_use);
  return outside_->in();
}

void ActivationPool::move(const Action& action) {
  Held& own = held(action);
  if (action.kind == ActionKind::offload) {
    const std::size_t bytes = model_.saved_bytes(action.chunk, *own.slot);
    constexpr std::size_t granularity = OffloadStorage::granularity;
    outside_->move_out(*own.outside, own.saved->memory, (bytes + granularity - 1) / granularity * granularity);
    outside_->out().record(*own.saved->last_use);
    release_saved(action, true);
    return;
  }
  outside_->move_in(*own.outside, own.saved->memory);
  outside_->in().record(*own.saved->last_use);
  model_.move_saved(action.chunk, *own.slot, own.saved->memory);
  own.outside = nullptr;
  own.came_back = true;
}

}  // namespace pipetrain
