#include "ops/segment_shape.hpp"

#include <cmath>

#include "core/error.hpp"

namespace pipetrain {

float SegmentShape::score_scale() const { return scale != 0 ? scale : 1.0F / std::sqrt(static_cast<float>(head_dim)); }

double SegmentShape::exact_score_scale() const { return scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(head_dim)); }

void refuse_sparse(const SegmentShape& shape) {
  if (shape.is_sparse())
    throw Error(ErrorKind::unavailable, "sinks and patterns of attention are not built for GPUs yet; use the CPU");
}

}  // namespace pipetrain
