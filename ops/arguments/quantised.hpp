// The arguments of products in 8 bits, and of reading frozen matrices that have fewer bits.
#pragma once

#include <optional>

#include "core/tensor.hpp"
#include "ops/fp8_matrix.hpp"
#include "ops/quantised_matrix.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

struct QuantiseArgs {
  Tensor x;       // [M, N] bf16
  Fp8Matrix out;  // output
  // For Fp8Scales::tensor: out.scale already ends with x's largest magnitude, so that it is not searched for.
  bool measured = false;
};

struct Fp8MatmulArgs {
  TensorParallel tp = {};             // the ranks over which products are summed
  Fp8Operand a;                       // [M, K]; with scales of tiles M is a multiple of 4
  Fp8Operand b;                       // [N, K] e4m3; must not have scales of blocks if a has
  std::optional<Tensor> addend = {};  // as out, added before the one rounding to out's dtype; may be out's memory
  Tensor out;                         // [M, N] bf16 or f32, output; this rank's rows of the sum if there are several ranks
};

struct DequantiseArgs {
  QuantisedMatrix matrix;
  Tensor out;  // as many elements as the slice, in its order; f32, bf16 or f16, output
};

}  // namespace pipetrain
