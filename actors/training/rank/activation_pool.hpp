// The memory of a rank's microbatches between their actions: as many blocks as the plan needs. A block is reused as soon as the
// worker has enqueued the last action on it, because the stream runs in order. Where the plan moves microbatches out (P) and
// back (G), the next user of a block waits, on the device, for the transfer that freed it. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/offload/offloaded_activations.hpp"
#include "core/device.hpp"
#include "model/stage_model.hpp"
#include "schedules/plan/action.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

class ActivationPool {
 public:
  struct Setup {
    const StageModel& model;
    const schedules::StageNeeds& needs;
    int microbatches = 0;               // with slices, the number of slices
    int slices = 1;                     // of each microbatch
    Stream& compute;                    // of the rank
    std::filesystem::path folder = {};  // on a disk, for activations that move out; empty: host memory
    std::string owner;                  // for errors
  };
  // owner: the beginning of Error(out_of_memory). Also throws what OffloadedActivations throws.
  explicit ActivationPool(const Setup& setup);

  // Returns the bytes that the constructor allocates on the device.
  static std::size_t bytes(const StageModel& model, const schedules::StageNeeds& needs);

  // Returns the slot of the compute action's chunk and microbatch: a free one for F; for I, with memory for pending
  // weight gradients. Throws Error(internal) when the plan promised fewer, or the microbatch had no F.
  ActivationSlot& take(const schedules::Action& action);
  // Returns the slots of the microbatch's earlier slices, in order. Call take() first.
  std::vector<ActivationSlot*> earlier_slices(const schedules::Action& action);
  // Called after each compute action: frees the memory that ends with it. In an evaluation a microbatch ends with the F
  // of its last slice.
  void release(const schedules::Action& action, schedules::StepKind kind);
  // The verdict takes this forward back: frees its memory. take() may be called for it again.
  void take_back(const schedules::Action& forward);

  // P and G, in two parts: begin_move() returns the stream that carries the transfer, for its waits; move() enqueues
  // the transfer.
  Stream& begin_move(const schedules::Action& action);
  void move(const schedules::Action& action);
  // Returns the streams that carry moves; none where the plan has none.
  std::vector<Stream*> streams() const { return outside_ ? outside_->streams() : std::vector<Stream*>{}; }

 private:
  struct MemoryBlock {
    void* memory = nullptr;
    std::uint64_t released = 0;       // the number of its last release, counted over all releases
    bool moved = false;               // its last user was a transfer
    std::unique_ptr<Event> last_use;  // where there are moves: the event of its last user
  };
  // Blocks of memory of one size, free or in use.
  struct MemoryBlocks {
    MemoryBlocks(Device& device, std::size_t bytes, const std::string& what);
    // Divides the memory into `count` blocks of `bytes` bytes, the first aligned (0: not aligned).
    void divide(std::size_t count, std::size_t bytes, std::size_t alignment);

    Buffer memory;
    std::vector<MemoryBlock> all;
    std::vector<MemoryBlock*> free;
  };
  struct Held {
    ActivationSlot* slot = nullptr;
    MemoryBlock *saved = nullptr, *pending = nullptr;
    OffloadedActivations::Outside* outside = nullptr;
    bool came_back = false;
  };
  struct Chunk {
    std::size_t saved;  // index into saved_
    MemoryBlocks pending;
    std::vector<std::unique_ptr<ActivationSlot>> slots;
    std::vector<ActivationSlot*> free;
    std::vector<Held> held;  // by microbatch
  };

  Chunk& chunk(const schedules::Action& action) { return chunks_[static_cast<std::size_t>(action.chunk)]; }
  Held& held(const schedules::Action& action) { return chunk(action).held[static_cast<std::size_t>(action.microbatch)]; }
  MemoryBlock* take_saved(const schedules::Action& action, bool for_transfer);
  void release_saved(const schedules::Action& action, bool moved);
  void release_slot(const schedules::Action& action);

  const StageModel& model_;
  int slices_;
  Stream& compute_;
  std::optional<OffloadedActivations> outside_;  // where the plan has moves
  std::vector<MemoryBlocks> saved_;              // one for all chunks, or one for each chunk
  std::vector<Chunk> chunks_;
  std::uint64_t releases_ = 0;
};

}  // namespace pipetrain
