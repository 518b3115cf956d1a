// Copies the parts of a rank's state to host memory while other work of the device goes on.
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

// Returns the elements of these parts.
std::size_t count_elements(const std::vector<HeldState>& parts);

// copy() and protect() enqueue, on the rank's worker.
class StateCopier {
 public:
  // source: on the device; must stay.
  StateCopier(Device& device, std::vector<HeldState> source);
  // Waits for a copy that is in progress.
  ~StateCopier();

  const std::vector<HeldState>& source() const { return source_; }

  // Starts to copy the source to `target`, dense, in the order of the parts. All work that changed it must have
  // finished, and later changes must call protect() first. Does not wait for other work, such as a running step. Throws
  // what reading throws.
  void copy(float* target);
  // Calls `done` on some host thread once the copy that was started last is complete; never after a failure.
  void when_copied(std::function<void()> done);
  // Later work of `stream` may change the source: it waits until the source has been copied.
  void protect(Stream& stream);

  // Waits until the copy is complete. Throws the failure that prevented it.
  void wait();

 private:
  std::vector<HeldState> source_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> copied_;
  bool copying_ = false;
};

}  // namespace pipetrain
