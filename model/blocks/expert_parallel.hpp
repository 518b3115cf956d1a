// A rank's part of the experts of routed layers, and its connection to the ranks that hold the others.
#pragma once

#include "core/process_group.hpp"
#include "model/config/experts.hpp"

namespace pipetrain {

struct ExpertParallel {
  ExpertPart part = {};
  Group* group = nullptr;  // of the part.size ranks; null for a single rank, or while memory is only measured
};

}  // namespace pipetrain
