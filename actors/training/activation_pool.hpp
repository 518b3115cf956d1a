// The memory that a rank's microbatches take between their actions: as many places as the plan needs, each reused as soon as
// this thread has enqueued the last action on it, because the stream runs in order. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "model/stage_model.hpp"
#include "schedules/action.hpp"
#include "schedules/plan.hpp"
#include "schedules/validate.hpp"

namespace pipetrain {

class ActivationPool {
 public:
  // Throws Error(out_of_memory) that begins with `owner`.
  ActivationPool(const StageModel& model, const schedules::StageNeeds& needs, int microbatches, Device& device,
                 const std::string& owner);

  // What the constructor allocates, in bytes.
  static std::size_t bytes(const StageModel& model, const schedules::StageNeeds& needs);

  // The slot of the action's chunk and microbatch: a free one for F, with memory for pending weight gradients for I. Throws
  // Error(internal) when the plan promised less, or the microbatch had no F.
  ActivationSlot& take(const schedules::Action& action);
  // To be called after each action: gives back what ended with it. In an evaluation a microbatch ends with F.
  void release(const schedules::Action& action, schedules::StepKind kind);

 private:
  // Pieces of memory of one size, free or in use.
  struct Places {
    Places(Device& device, std::size_t count, std::size_t bytes, const std::string& what);

    Buffer memory;
    std::vector<void*> free;
  };
  struct Held {
    ActivationSlot* slot = nullptr;
    void *saved = nullptr, *pending = nullptr;
  };
  struct Chunk {
    std::size_t saved;  // which places
    Places pending;
    std::vector<std::unique_ptr<ActivationSlot>> slots;
    std::vector<ActivationSlot*> free;
    std::vector<Held> held;  // by microbatch
  };

  const StageModel& model_;
  std::vector<Places> saved_;  // of all chunks, or one's each
  std::vector<Chunk> chunks_;
};

}  // namespace pipetrain
