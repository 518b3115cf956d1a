// A rank's place in context parallelism, and how it reaches the others.
#pragma once

#include "model/context/context_part.hpp"

namespace pipetrain {

class RingExchange;

struct ContextParallel {
  ContextPart part = {};         // of each sequence
  RingExchange* ring = nullptr;  // between the ranks of part.size; null where there is one, or memory is only measured
};

}  // namespace pipetrain
