// Products in 8 bits of a matrix whose other operand is rounded for them.
#pragma once

#include <optional>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/fp8_memory.hpp"

namespace pipetrain {

struct Fp8ProductArgs {
  TensorParallel tp = {};             // the ranks over which the products are summed
  const Fp8Matrix& weight;            // [N, K]
  Tensor in;                          // [T, K] of the forward, [T, N] of the backward
  Arena* cols = nullptr;              // arena of in's cols; null: not wanted
  std::optional<Tensor> scale = {};   // [2] f32 with in's largest magnitude, which becomes in's scale; kept as long as the cols
  std::optional<Tensor> addend = {};  // as out
  Tensor out;                         // [T, N] of the forward, [T, K] of the backward, output; this rank's rows of the sum
};

// out = in x weight^T + addend. Returns in's rounded form; its rows are in the workspace.
Fp8Matrix multiply_in_fp8(const BlockContext& context, const Fp8ProductArgs& args);
// out = in x weight + addend, in a gradient of outputs. Returns as above.
Fp8Matrix multiply_back_in_fp8(const BlockContext& context, const Fp8ProductArgs& args);

}  // namespace pipetrain
