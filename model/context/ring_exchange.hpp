// What the ranks of a context-parallel group pass on to each other in a ring, beside the compute. Not thread-safe: used by the
// rank's worker only.
#pragma once

#include <memory>
#include <string>

#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

class RingExchange {
 public:
  // The group outlives it. All members must make the same calls in the same order.
  RingExchange(Device& device, std::shared_ptr<Group> group, const std::string& name);

  // target = `source` of the member before (Group::shift), as it is once what `compute` holds so far has run. Until finish()
  // the source may be read only, and the target not at all.
  void start(Stream& compute, const Tensor& source, const Tensor& target);
  // What `compute` holds from now on sees all targets, and may write to all sources.
  void finish(Stream& compute);

  Stream& stream() { return *stream_; }

 private:
  std::shared_ptr<Group> group_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> there_, passed_;
};

}  // namespace pipetrain
