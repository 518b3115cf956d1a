#include "comm/inproc/same_memory_link.hpp"

namespace pipetrain {

Tensor SameMemoryLink::begin(Stream& compute, const Lane& lane) {
  if (lane.free) compute.wait(*lane.free);
  return lane.tensor;
}

void SameMemoryLink::send(Stream& compute, Lane& lane) {
  if (lane.ready) compute.record(*lane.ready);
}

}  // namespace pipetrain
