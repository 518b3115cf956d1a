// The arguments of products in 8 bits, and of reading frozen matrices that have fewer bits.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"
#include "ops/fp8_matrix.hpp"
#include "ops/normal_draw.hpp"
#include "ops/quantised_matrix.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

struct QuantiseArgs {
  Tensor x;       // [M, N] bf16
  Fp8Matrix out;  // output
  // For Fp8Scales::tensor: out.scale already ends with x's largest magnitude, so that it is not searched for.
  bool measured = false;
  Tensor used = {};  // [1] i32: as in ops/arguments/experts.hpp; without a shape: all rows. For out.rows with Fp8Scales::tensor
};

struct Fp8MatmulArgs {
  TensorParallel tp = {};             // the ranks over which products are summed
  Fp8Operand a;                       // [M, K]; with scales of tiles M is a multiple of 4
  Fp8Operand b;                       // [N, K] e4m3; must not have scales of blocks if a has
  std::optional<Tensor> addend = {};  // as out, added before the one rounding to out's dtype; may be out's memory
  Tensor out;                         // [M, N] bf16 or f32, output; this rank's rows of the sum if there are several ranks
};

// Some elements of a logical tensor.
struct DrawNormalsArgs {
  NormalDraw draw;
  std::int64_t first = 0;  // the number of out's first element; a multiple of normals_of_block
  Tensor out;              // f32, output
};

struct QuantiseNf4Args {
  Tensor values;           // f32: elements of the logical matrix, flattened by rows; finite
  std::int64_t first = 0;  // the number of the first; a multiple of nf4_block
  // A form of nf4, with the levels in its tables. Output: the codes of the slice's elements among the values, in memory that
  // was zero.
  QuantisedMatrix out;
  Tensor scales;  // f32 [blocks of the logical matrix], output: those of the values' blocks, their largest magnitudes
};

struct CodeNf4ScalesArgs {
  Tensor scales;        // as in QuantiseNf4Args, of all blocks
  QuantisedMatrix out;  // with the values of scales' codes in its tables. Output: the scales, and the mean where they are coded
};

struct DequantiseArgs {
  QuantisedMatrix matrix;
  Tensor out;  // as many elements as the slice, in its order; f32, bf16 or f16, output
};

}  // namespace pipetrain
