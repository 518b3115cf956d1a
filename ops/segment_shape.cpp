#include "ops/segment_shape.hpp"

#include "core/error.hpp"

namespace pipetrain {

void refuse_sinks(const SegmentShape& shape) {
  if (shape.sinks != 0) throw Error(ErrorKind::unavailable, "attention with sinks is not built yet; use sinks 0");
}

}  // namespace pipetrain
