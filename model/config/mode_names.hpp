// How the modes of a run are spelled on the command line, in profiles and in tables.
#pragma once

#include "model/config/precision.hpp"
#include "model/config/recompute.hpp"

namespace pipetrain {

// From what computes least again.
inline constexpr Recompute recompute_modes[] = {Recompute::none, Recompute::selective, Recompute::full};

constexpr const char* name_of(Recompute mode) {
  return mode == Recompute::none ? "none" : mode == Recompute::selective ? "selective" : "full";
}

constexpr const char* precision_name(const Precision& precision) {
  if (precision.fp8_products) return "fp8";
  return precision.compute == DType::bf16 ? "bf16" : precision.compute == DType::f16 ? "fp16" : "fp32";
}

constexpr const char* fp8_recipe_name(const Precision& precision) {
  return precision.fp8_blockwise ? "blockwise" : "tensorwise";
}

// Returns both in one name, for people and profiles.
constexpr const char* numbers_name(const Precision& precision) {
  return precision.fp8_blockwise ? "fp8 blockwise" : precision_name(precision);
}

}  // namespace pipetrain
