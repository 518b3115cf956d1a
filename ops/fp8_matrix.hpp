// Matrices in 8 bits, with their scales.
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace pipetrain {

// 8-bit products require rows of a multiple of this many numbers.
constexpr std::int64_t fp8_multiple = 16;
constexpr std::int64_t round_up_to_fp8(std::int64_t count) { return (count + fp8_multiple - 1) / fp8_multiple * fp8_multiple; }

// The numbers that share one scale of an 8-bit matrix. A number is multiplied by its scale to give its value.
enum class Fp8Scales : std::uint8_t {
  tensor,  // all numbers of the matrix
  tiles,   // fp8_block numbers along the summed dimension; each layout is rounded by its own scales
  blocks,  // fp8_block x fp8_block numbers, the same blocks in both layouts
};
constexpr std::int64_t fp8_block = 128;

// Returns the shape of the scales of tiles or blocks of a layout [R, C], whose dimension C is summed over, in
// f32: [C's tiles, R], or [R's blocks, C's blocks rounded up to a multiple of 4], with zeros as padding.
// cuBLASLt reads scales in this form.
inline Shape fp8_scale_shape(Fp8Scales scales, const Shape& layout) {
  const auto blocks = [](std::int64_t count) { return (count + fp8_block - 1) / fp8_block; };
  if (scales == Fp8Scales::tiles) return {blocks(layout[1]), layout[0]};
  return {blocks(layout[0]), (blocks(layout[1]) + 3) / 4 * 4};
}

// A matrix [M, N] in e4m3 or e5m2, in the two layouts that 8-bit products need; each has its summed dimension fastest.
struct Fp8Matrix {
  Tensor rows = {};   // [M, N]; without a shape: absent
  Tensor cols = {};   // [N, round_up_to_fp8(M)]: the transpose, zero after its M columns; without a shape: absent
  Tensor scale = {};  // for Fp8Scales::tensor: [2] f32, the scale and the largest magnitude; else without a shape
  Fp8Scales scales = Fp8Scales::tensor;
  // For tiles and blocks: the scales of each present layout, see fp8_scale_shape().
  Tensor row_scales = {}, col_scales = {};
};

inline Tensor largest_of(const Tensor& scale) { return scale.row_range(1, 2); }

// One layout of an Fp8Matrix: its rows or its cols.
struct Fp8Operand {
  Tensor values;
  Tensor scale;
  Fp8Scales scales = Fp8Scales::tensor;
};

}  // namespace pipetrain
