// How a rank sends to a slot in another GPU's memory: it computes into memory of its own, and a stream of its own carries the
// result over the links while the rank goes on computing. Not thread-safe: used by the rank's worker only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/slot.hpp"
#include "core/device.hpp"

namespace pipetrain {

class EdgeCopy {
 public:
  // Results on their way at once, with the one that is being computed.
  static constexpr int places = 3;

  // Copies from `device` what has at most `bytes`. Throws Error(out_of_memory) that begins with `owner`.
  EdgeCopy(Device& device, std::size_t bytes, const std::string& name, const std::string& owner);

  // Whether results of one device reach slots of the other by a copy: between GPUs. On the CPU all memory is one.
  static bool needed(DeviceId from, DeviceId to) { return from.kind == DeviceKind::cuda && !(from == to); }
  static std::size_t memory_bytes(std::size_t bytes);

  // Where to compute what the lane shall hold; `compute` waits until the place's last content has left.
  Tensor begin(Stream& compute, const Lane& lane);
  // Sends what `compute` has written since: waits for the slot to be free, copies, records that it is ready.
  void send(Stream& compute, Lane& lane);

  // Carries what begin() and send() enqueue.
  Stream& stream() { return *stream_; }

 private:
  struct Place {
    void* data = nullptr;
    std::unique_ptr<Event> written, left;
  };

  std::size_t bytes_;
  Buffer memory_;
  std::vector<Place> places_;
  std::size_t next_ = 0;
  std::unique_ptr<Stream> stream_;
};

}  // namespace pipetrain
