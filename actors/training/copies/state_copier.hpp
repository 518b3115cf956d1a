// Copies the parts of a rank's state to host memory while other work of the device goes on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/copies/staged_transfers.hpp"
#include "core/device.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// A part of one state of one parameter.
struct HeldState {
  std::string state;          // "weights", or one of the optimizer's
  std::size_t parameter = 0;  // index in the rank's layout
  Region elements;            // of the parameter's slice
  const float* values = nullptr;
  // Set for values that are not on the device, or not f32 there: fills host memory with the values, and waits for that.
  std::function<void(float* out)> read = {};
  // Set for a state that has a shape of its own: the values are all of this tensor, under the parameter's name.
  std::shared_ptr<const Parameter> own = nullptr;
};

// Returns the elements of these parts.
std::size_t count_elements(const std::vector<HeldState>& parts);

// The way to a copy's memory.
enum class CopyWay {
  direct,  // locked memory for a GPU: see Device::allocate_host()
  staged,  // any memory: see StagedTransfers
};

// copy() and protect() are for the rank's worker.
class StateCopier {
 public:
  // source: on the device; must stay. locked: of a staged copier; see StagedTransfers. Throws Error(out_of_memory).
  StateCopier(Device& device, std::vector<HeldState> source, CopyWay way, std::shared_ptr<const LockedChunks> locked = {});
  // Waits for a copy that is in progress.
  ~StateCopier();
  StateCopier(const StateCopier&) = delete;
  StateCopier& operator=(const StateCopier&) = delete;

  const std::vector<HeldState>& source() const { return source_; }

  // Starts to copy the source to `target`, dense, in the order of the parts. All work that changed it must have
  // finished, and later changes must call protect() first. Does not wait for other work, such as a running step. done: called
  // on some host thread once the copy is complete, never after a failure; may be empty. Throws what reading throws.
  void copy(float* target, std::function<void()> done);
  // Does the same with a target for each part.
  void copy(const std::vector<float*>& targets, std::function<void()> done);
  // Later work of `stream` may change the source: it comes after the reading of the source. A staged copy blocks the host
  // until then.
  void protect(Stream& stream);

  // Returns the way between the source and any host memory; null for a direct copier. Use it between copies.
  StagedTransfers* staged() { return staged_.get(); }

  // Waits until the copy is complete and its `done` has been called. Throws the failure that prevented it.
  void wait();

 private:
  std::vector<HeldState> source_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> copied_;
  std::unique_ptr<StagedTransfers> staged_;  // null: direct, with the stream and the event
  bool copying_ = false;
};

}  // namespace pipetrain
