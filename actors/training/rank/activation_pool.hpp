// The memory that a rank's microbatches take between their actions: as many places as the plan needs, each reused as soon as
// this thread has enqueued the last action on it, because the stream runs in order. Where the plan moves microbatches out (P)
// and back (G), whoever takes a place next waits, on the device, for the transfer that freed it. Not thread-safe.
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
    int microbatches = 0;               // with slices, their pieces
    int slices = 1;                     // of each microbatch
    Stream& compute;                    // of the rank
    std::filesystem::path folder = {};  // of a disk for what moves out; empty: host memory
    std::string owner;                  // for errors
  };
  // Throws Error(out_of_memory) that begins with the owner, and what OffloadedActivations throws.
  explicit ActivationPool(const Setup& setup);

  // What the constructor allocates of the device, in bytes.
  static std::size_t bytes(const StageModel& model, const schedules::StageNeeds& needs);

  // The slot of the compute action's chunk and microbatch: a free one for F, with memory for pending weight gradients for I.
  // Throws Error(internal) when the plan promised less, or the microbatch had no F.
  ActivationSlot& take(const schedules::Action& action);
  // Of the microbatch that the action's piece is a slice of: the slots of the slices before it, in order. take() first.
  std::vector<ActivationSlot*> earlier_slices(const schedules::Action& action);
  // To be called after each compute action: gives back what ended with it. In an evaluation a microbatch ends with F, of its
  // last slice.
  void release(const schedules::Action& action, schedules::StepKind kind);
  // This forward was for nothing: gives back what it took. It may be taken again.
  void take_back(const schedules::Action& forward);

  // P and G, in two parts: what the transfer waits for, and the transfer. begin_move() gives the stream that carries it.
  Stream& begin_move(const schedules::Action& action);
  void move(const schedules::Action& action);
  // That carry moves; none where the plan has none.
  std::vector<Stream*> streams() const { return outside_ ? outside_->streams() : std::vector<Stream*>{}; }

 private:
  struct Place {
    void* memory = nullptr;
    std::uint64_t released = 0;       // when, among all releases
    bool moved = false;               // what used it last was a transfer
    std::unique_ptr<Event> last_use;  // where there are moves: of whoever filled or released it last
  };
  // Pieces of memory of one size, free or in use.
  struct Places {
    Places(Device& device, std::size_t bytes, const std::string& what);
    // Into so many of so many bytes, the first at a multiple of the alignment (0: of any).
    void divide(std::size_t count, std::size_t bytes, std::size_t alignment);

    Buffer memory;
    std::vector<Place> all;
    std::vector<Place*> free;
  };
  struct Held {
    ActivationSlot* slot = nullptr;
    Place *saved = nullptr, *pending = nullptr;
    OffloadedActivations::Outside* outside = nullptr;
    bool came_back = false;
  };
  struct Chunk {
    std::size_t saved;  // which places
    Places pending;
    std::vector<std::unique_ptr<ActivationSlot>> slots;
    std::vector<ActivationSlot*> free;
    std::vector<Held> held;  // by microbatch
  };

  Chunk& chunk(const schedules::Action& action) { return chunks_[static_cast<std::size_t>(action.chunk)]; }
  Held& held(const schedules::Action& action) { return chunk(action).held[static_cast<std::size_t>(action.microbatch)]; }
  Place* take_saved(const schedules::Action& action, bool for_transfer);
  void release_saved(const schedules::Action& action, bool moved);
  void release_slot(const schedules::Action& action);

  const StageModel& model_;
  int slices_;
  Stream& compute_;
  std::optional<OffloadedActivations> outside_;  // where the plan has moves
  std::vector<Places> saved_;                    // of all chunks, or one's each
  std::vector<Chunk> chunks_;
  std::uint64_t releases_ = 0;
};

}  // namespace pipetrain
