// What a rank keeps, as it was at one moment, in host memory: a checkpoint is written from it while training goes on.
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
  std::size_t parameter = 0;  // of the rank's layout
  Region elements;            // of the parameter's slice
  const float* values = nullptr;
  // Of values that are not on the device, or not f32 there, instead: fills host memory with the values, and waits until they
  // are there.
  std::function<void(float* out)> read = {};
};

// take() and protect() enqueue, on the rank's worker; wait() and pieces() are for whoever writes. One moment at a time: take()
// comes again only once nobody reads the pieces of the one before.
class StateSnapshot {
 public:
  // source: on the device; stays. Throws Error(out_of_memory).
  StateSnapshot(Device& device, const std::string& rank, std::vector<HeldState> source);
  ~StateSnapshot();

  // Starts to copy the source. All work that has changed it must have finished, and later changes must call protect() first.
  // Does not wait for other work, such as a step that is under way. Throws what reading throws.
  void take();
  // Later work of `stream` may change the source: it waits until the last moment taken has been copied.
  void protect(Stream& stream);

  // Until the copy is there. Throws what made it fail.
  void wait();
  // The copies, in the order of the source.
  const std::vector<HeldState>& pieces() const { return pieces_; }

 private:
  std::vector<HeldState> source_, pieces_;
  Buffer memory_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> copied_;
  bool taken_ = false;
};

// Bytes of the host that a snapshot of these takes.
std::size_t snapshot_bytes(const std::vector<HeldState>& source);

}  // namespace pipetrain
