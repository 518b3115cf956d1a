// A rank's part in context parallelism, and its connection to the other ranks.
#pragma once

#include "model/context/context_part.hpp"

namespace pipetrain {

class RingExchange;

struct ContextParallel {
  ContextPart part = {};         // this rank's part of each sequence
  RingExchange* ring = nullptr;  // between the part.size ranks; null for a single rank, or while memory is only measured
};

}  // namespace pipetrain
