// A copy in host memory of a rank's state at one moment, from which a checkpoint is written while training goes on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

// take() and protect() enqueue, on the rank's worker; wait() and pieces() are for the thread that writes. take() may be
// called again only when nobody reads the previous pieces.
class StateSnapshot {
 public:
  // source: on the device; must stay. Throws Error(out_of_memory).
  StateSnapshot(Device& device, const std::string& rank, std::vector<HeldState> source);
  ~StateSnapshot();

  // Starts to copy the source. All work that changed it must have finished, and later changes must call protect()
  // first. Does not wait for other work, such as a running step. Throws what reading throws.
  void take();
  // Later work of `stream` may change the source: it waits until the source has been copied.
  void protect(Stream& stream);

  // Waits until the copy is complete. Throws the failure that prevented it.
  void wait();
  // Returns the copies, in the order of the source.
  const std::vector<HeldState>& pieces() const { return pieces_; }

 private:
  std::vector<HeldState> source_, pieces_;
  Buffer memory_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> copied_;
  bool taken_ = false;
};

// Returns the host memory that a snapshot of these parts takes.
std::size_t snapshot_bytes(const std::vector<HeldState>& source);

}  // namespace pipetrain
