// The memory that a chunk's microbatches take between their actions on one rank: as many places as the plan needs, each reused
// as soon as this thread has enqueued the last action on it, because the stream runs in order. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "model/stage_model.hpp"
#include "schedules/action.hpp"
#include "schedules/validate.hpp"

namespace pipetrain {

class ActivationPool {
 public:
  // Throws Error(out_of_memory) that begins with `owner`.
  ActivationPool(const StageModel& model, int chunk, const schedules::ChunkNeeds& needs, int microbatches, Device& device,
                 const std::string& owner);

  // What the constructor allocates, in bytes.
  static std::size_t bytes(const ActivationBytes& each, const schedules::ChunkNeeds& needs);

  // The slot of the action's microbatch: a free one for F, with memory for pending weight gradients for I. Throws
  // Error(internal) when the plan promised less, or the microbatch had no F.
  ActivationSlot& take(const schedules::Action& action);
  // To be called after each action: gives back what ended with it.
  void release(const schedules::Action& action);

 private:
  const StageModel& model_;
  int chunk_;
  Buffer saved_memory_, pending_memory_;
  std::vector<std::unique_ptr<ActivationSlot>> slots_;
  std::vector<ActivationSlot*> free_, in_use_;        // in use: by microbatch
  std::vector<void*> free_pending_, pending_in_use_;  // in use: by microbatch
};

}  // namespace pipetrain
