// The types of a run's numbers.
#pragma once

#include "core/dtype.hpp"

namespace pipetrain {

struct Precision {
  DType compute = DType::f32;  // activations, their gradients, and the weights that operations read
  DType master = DType::f32;   // the weights that the optimizer updates, and its moments
  DType grad = DType::f32;     // of weights: added up over microbatches and replicas
  DType comm = DType::f32;     // of the data that stages send each other
  bool fp8_products = false;   // those of attention, MLP and routed blocks with their weights: of e4m3, gradients in e5m2
  // With scales of 1 x 128 (activations and gradients) and 128 x 128 numbers (weights) instead of one a tensor, all in e4m3.
  bool fp8_blockwise = false;

  static constexpr Precision fp32() { return {}; }
  // Mixed: fp32 master weights are rounded once a step to what the operations read.
  static constexpr Precision bf16() { return {.compute = DType::bf16, .comm = DType::bf16}; }
  // The same, with more digits and less range: gradients need a loss scale.
  static constexpr Precision fp16() { return {.compute = DType::f16, .comm = DType::f16}; }

  // bf16, but for the blocks' products.
  static constexpr Precision fp8() { return {.compute = DType::bf16, .comm = DType::bf16, .fp8_products = true}; }
  static constexpr Precision fp8_of_blocks() {
    Precision precision = fp8();
    precision.fp8_blockwise = true;
    return precision;
  }

  bool rounds_weights() const { return compute != master; }
  bool operator==(const Precision&) const = default;
};

// Throws Error(unavailable) for a mixture that is not built: only those above are.
void check_precision(const Precision& precision);

}  // namespace pipetrain
