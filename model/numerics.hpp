// Number types, recomputation and determinism of a run: what decides the bits of its results and the memory it takes.
#pragma once

#include "model/precision.hpp"
#include "model/recompute.hpp"

namespace pipetrain {

struct Numerics {
  Precision precision = {};  // bf16 and fp16 on GPUs only
  Recompute recompute = Recompute::none;
  bool deterministic = true;  // see make_cuda_ops()
};

}  // namespace pipetrain
