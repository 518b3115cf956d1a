#include "ops/segment_shape.hpp"

#include "core/error.hpp"

namespace pipetrain {

void refuse_window(const SegmentShape& shape) {
  if (shape.window != 0)
    throw Error(ErrorKind::unavailable, "attention within a window is not built for GPUs yet; use window 0, or the CPU");
}

void refuse_sinks(const SegmentShape& shape) {
  if (shape.sinks != 0) throw Error(ErrorKind::unavailable, "attention with sinks is not built yet; use sinks 0");
}

}  // namespace pipetrain
