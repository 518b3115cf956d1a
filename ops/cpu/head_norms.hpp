// Norms of heads as copies of their columns, norms of rows and the rotation. The workspace must be that of `ops`.
#pragma once

#include "core/buffer.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cpu {

void head_norms(Ops& ops, Arena& workspace, const SegmentShape& shape, const HeadNormsArgs& args);
void head_norms_backward(Ops& ops, Arena& workspace, const SegmentShape& shape, const HeadNormsBackwardArgs& args);

}  // namespace pipetrain::cpu
