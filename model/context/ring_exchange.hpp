// RingExchange passes tensors around the ring of a context-parallel group, overlapped with compute. Not
// thread-safe: used by the rank's worker only.
#pragma once

#include <memory>
#include <string>

#include "core/device.hpp"
#include "core/process_group.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

class RingExchange {
 public:
  // The group outlives it. All members must make the same calls in the same order.
  RingExchange(Device& device, std::shared_ptr<Group> group, const std::string& name);

  // Sets target to the `source` of the member before (Group::shift), as it is once the work that `compute`
  // holds so far has run. Until finish() the source must only be read, and the target must not be used at all.
  void start(Stream& compute, const Tensor& source, const Tensor& target);
  // Work that is enqueued on `compute` from now on sees all targets, and may write to all sources.
  void finish(Stream& compute);

  // Adds to `tensor`, of integers, whose sum depends on no order, those of the other members. `passed` and `received` are
  // memory of the same shape.
  void sum(Ops& ops, const Tensor& tensor, Tensor passed, Tensor received);
  // Adds to `tensor`, f32 or f64, those of the other members, in rank order, before the work that `compute` gets next.
  void all_reduce(Stream& compute, const Tensor& tensor);

  Stream& stream() { return *stream_; }

 private:
  std::shared_ptr<Group> group_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> there_, passed_;
};

}  // namespace pipetrain
