// A copy in host memory of a rank's state at one moment, from which a checkpoint is written while training goes on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "actors/training/copies/state_copier.hpp"
#include "core/device.hpp"

namespace pipetrain {

// take() and protect() enqueue, on the rank's worker; wait() and pieces() are for the thread that writes. take() may be
// called again only when nobody reads the previous pieces.
class StateSnapshot {
 public:
  // source: on the device; must stay. Throws Error(out_of_memory).
  StateSnapshot(Device& device, const std::string& rank, std::vector<HeldState> source);

  // Starts to copy the source: see StateCopier::copy().
  void take();
  void protect(Stream& stream) { copier_.protect(stream); }

  // Waits until the copy is complete. Throws the failure that prevented it.
  void wait() { copier_.wait(); }
  // Returns the copies, in the order of the source.
  const std::vector<HeldState>& pieces() const { return pieces_; }

 private:
  std::vector<HeldState> pieces_;
  Buffer memory_;  // declared before the copier, which may still write to it
  StateCopier copier_;
};

// Returns the host memory that a snapshot of these parts takes.
std::size_t snapshot_bytes(const std::vector<HeldState>& source);

}  // namespace pipetrain
