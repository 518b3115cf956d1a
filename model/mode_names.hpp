// How the modes of a run are spelled on the command line, in profiles and in tables.
#pragma once

#include "core/dtype.hpp"
#include "model/recompute.hpp"

namespace pipetrain {

constexpr const char* name_of(Recompute mode) {
  return mode == Recompute::none ? "none" : mode == Recompute::selective ? "selective" : "full";
}

// Of what a run computes in: f32 or bf16.
constexpr const char* precision_name(DType precision) { return precision == DType::bf16 ? "bf16" : "fp32"; }

}  // namespace pipetrain
