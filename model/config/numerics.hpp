// Number types, recomputation and determinism of a run: what decides the bits of its results and the memory it takes.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config/precision.hpp"
#include "model/config/recompute.hpp"

namespace pipetrain {

// In fp8: how many layers at the model's ends compute their products in bf16 as the rest of it does.
struct Bf16Layers {
  std::int64_t at_start = 0, at_end = 0;
};

struct Numerics {
  Precision precision = {};  // bf16, fp16 and fp8 on GPUs only
  Recompute recompute = Recompute::none;
  // If given, only this many first layers of each chunk recompute in this way (two blocks per layer, whichever comes first).
  // The other layers recompute selectively where it is full, else nothing. Results do not depend on it.
  std::optional<std::int64_t> recompute_layers = {};
  // How many chunks the head and the loss take a microbatch's tokens in; 1: all at once. See chunked_head_block.hpp.
  int loss_chunks = 1;
  Bf16Layers bf16_layers = {};
  bool deterministic = true;  // see make_cuda_ops()
};

}  // namespace pipetrain
