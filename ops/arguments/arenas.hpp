// The arguments of copies, rounding and sums of tensors that may have any meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor.hpp"
#include "ops/accumulate.hpp"

namespace pipetrain {

struct CopyColumnsArgs {
  Tensor source;                  // [R, ...], of target's type, or one of the two is f32; must not overlap target
  std::int64_t source_begin = 0;  // the first of source's columns to copy
  Tensor target;                  // [R, ...]; columns [target_begin, target_begin + count) are written
  std::int64_t target_begin = 0, count = 0;
};

// A part of a larger matrix: some of its rows and columns.
struct MatrixBlock {
  Tensor values;
  std::int64_t row = 0, column = 0;  // of its first element in the larger matrix
};
constexpr std::size_t most_matrix_blocks = 4;

struct JoinBlocksArgs {
  std::span<const MatrixBlock> blocks;  // most_matrix_blocks at most, of out's type; they share no element
  Tensor out;                           // [N, K], output: the blocks, and zeros between them
};

struct AddBlocksArgs {
  Tensor source;                        // [N, K] f32
  std::span<const MatrixBlock> blocks;  // f32, of source, most_matrix_blocks at most; += or =
  Accumulate accumulate = Accumulate::yes;
  std::optional<Tensor> factors = {};  // [K]: source's columns are multiplied by them and the offset's sum
  float offset = 0;
};

struct CopyArgs {
  Tensor source;
  Tensor target;  // equally many bytes; must not overlap source
};

struct ZeroArgs {
  Tensor tensor;
};

struct RoundArgs {
  Tensor source;  // f32
  Tensor target;  // [same length] bf16, f16 or f32, output
};

struct SquareSumArgs {
  Tensor tensor;  // f32
  Tensor sum;     // [1] f64, output
};

struct SquareSumEachArgs {
  std::span<const SquareSumArgs> sums;  // their tensors must have elements
};

struct SquareSumsArgs {
  Tensor tensor;  // f32
  Tensor sums;    // [elements / 65,536, rounded up] f64, output
};

struct AddArgs {
  Tensor target;  // f32 or f64, on CPUs also i32, +=
  Tensor source;
};

}  // namespace pipetrain
