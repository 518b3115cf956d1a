#include "ops/segment_shape.hpp"

#include <cmath>

#include "core/error.hpp"

namespace pipetrain {

float SegmentShape::score_scale() const { return scale != 0 ? scale : 1.0F / std::sqrt(static_cast<float>(head_dim)); }

double SegmentShape::exact_score_scale() const { return scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(head_dim)); }

void refuse_sinks(const SegmentShape& shape) {
  if (shape.sinks != 0) throw Error(ErrorKind::unavailable, "attention with sinks is not built yet; use sinks 0");
}

}  // namespace pipetrain
