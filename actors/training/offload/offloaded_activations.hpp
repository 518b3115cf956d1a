// The activations that a rank keeps outside of its device, and the streams that move them out (P) and back in (G) while
// the rank computes.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offload/offload_storage.hpp"
#include "core/device.hpp"
#include "model/stage_model.hpp"
#include "schedules/plan/plan_needs.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class OffloadedActivations {
 public:
  // The storage for one microbatch of a chunk.
  struct Outside {
    std::size_t chunk = 0, begin = 0, bytes = 0;  // bytes: of its contents
    std::unique_ptr<Event> stored, fetched;
  };

  struct Setup {
    Device& device;
    std::filesystem::path folder;  // of a disk; empty: host memory
    std::string name;              // of the rank, for errors
  };
  // Allocates as much storage as the plan needs. Throws as OffloadStorage does.
  OffloadedActivations(const Setup& setup, const StageModel& model, const schedules::StageNeeds& needs);

  // True when this plan moves activations on this stage.
  static bool needed(const schedules::StageNeeds& needs);
  // Returns the bytes of one microbatch of a chunk, the same inside and outside of the device.
  static std::size_t place_bytes(const StageModel& model, std::size_t chunk);
  // Returns all bytes on the host or the disk, and the most bytes of one transfer.
  static StorageBytes bytes(const StageModel& model, const schedules::StageNeeds& needs);

  Stream& out() { return *out_; }
  Stream& in() { return *in_; }
  std::vector<Stream*> streams() const { return {out_.get(), in_.get()}; }

  // Each enqueues to its stream, which waits for the previous user of the storage. memory and bytes: multiples of
  // OffloadStorage::granularity.
  Outside& begin_out(std::size_t chunk);
  void move_out(Outside& to, const void* memory, std::size_t bytes);
  void begin_in(Outside& from);
  // Also frees the storage for its next user, which waits for this move.
  void move_in(Outside& from, void* memory);

 private:
  std::vector<Outside> places_;
  std::vector<std::deque<Outside*>> free_;  // by chunk, the least recently used first
  std::unique_ptr<OffloadStorage> memory_;
  std::unique_ptr<Stream> out_, in_;  // declared after the memory that they use
};

}  // namespace pipetrain
