#include "ops/segment_shape.hpp"

#include <cmath>

namespace pipetrain {

float SegmentShape::score_scale() const { return scale != 0 ? scale : 1.0F / std::sqrt(static_cast<float>(head_dim)); }

double SegmentShape::exact_score_scale() const { return scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(head_dim)); }

}  // namespace pipetrain
