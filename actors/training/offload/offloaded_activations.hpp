// What a rank keeps of microbatches while it is outside of the device, and the streams that carry it there (P) and back (G),
// beside the rank's compute.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offload/offload_place.hpp"
#include "core/device.hpp"
#include "model/stage_model.hpp"
#include "schedules/plan/plan_needs.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class OffloadedActivations {
 public:
  // A place outside for one microbatch of a chunk.
  struct Outside {
    std::size_t chunk = 0, begin = 0, bytes = 0;  // bytes: of what is there
    std::unique_ptr<Event> stored, fetched;
  };

  struct Setup {
    Device& device;
    std::filesystem::path folder;  // of a disk; empty: host memory
    std::string name;              // of the rank, for errors
  };
  // Allocates as many places as the plan needs. Throws what the places throw.
  OffloadedActivations(const Setup& setup, const StageModel& model, const schedules::StageNeeds& needs);

  // Whether this plan moves anything on this stage.
  static bool needed(const schedules::StageNeeds& needs);
  // Of one microbatch of a chunk, inside and outside alike.
  static std::size_t place_bytes(const StageModel& model, std::size_t chunk);
  // Of the host or the disk, in all, and the most that one transfer moves.
  static PlaceBytes bytes(const StageModel& model, const schedules::StageNeeds& needs);

  Stream& out() { return *out_; }
  Stream& in() { return *in_; }
  std::vector<Stream*> streams() const { return {out_.get(), in_.get()}; }

  // Each enqueues to its stream, which waits for whoever used the outer place before. memory and bytes: multiples of
  // OffloadPlace::granularity.
  Outside& begin_out(std::size_t chunk);
  void move_out(Outside& to, const void* memory, std::size_t bytes);
  void begin_in(Outside& from);
  // The outer place is free again.
  void move_in(Outside& from, void* memory);

 private:
  std::vector<Outside> places_;
  std::vector<std::deque<Outside*>> free_;  // by chunk, the one that was used longest ago first
  std::unique_ptr<OffloadPlace> memory_;
  std::unique_ptr<Stream> out_, in_;  // after what they use
};

}  // namespace pipetrain
