// A copy in host memory of a rank's state at one moment, from which a checkpoint is written while training goes on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/copies/state_copier.hpp"
#include "actors/training/state/snapshot_memory.hpp"
#include "core/device.hpp"

namespace pipetrain {

// take() and protect() enqueue, on the rank's worker; wait() and pieces() are for the thread that writes. take() may be
// called again only when nobody reads the previous pieces.
class StateSnapshot {
 public:
  // source: on the device; must stay. Its copies are in this memory. Throws Error(out_of_memory).
  StateSnapshot(Device& device, const std::string& rank, std::vector<HeldState> source, SnapshotMemory& memory);

  // Starts to copy the source: see StateCopier::copy().
  void take();
  void protect(Stream& stream) { copier_.protect(stream); }

  // Waits until the copy is complete. Throws the failure that prevented it.
  void wait() { copier_.wait(); }
  // Returns the copies, in the order of the source.
  const std::vector<HeldState>& pieces() const { return pieces_; }
  // Returns the owner of the copies, which may outlive the snapshot.
  const std::shared_ptr<const void>& memory() const { return places_.memory; }

 private:
  std::vector<HeldState> pieces_;
  SnapshotMemory::Places places_;  // declared before the copier, which may still write to it
  StateCopier copier_;
};

}  // namespace pipetrain
