// Matrices in 8 bits, with the scales that say which numbers they stand for.
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace pipetrain {

// Products of 8 bits want rows of a multiple of as many numbers.
constexpr std::int64_t fp8_multiple = 16;
constexpr std::int64_t round_up_to_fp8(std::int64_t count) { return (count + fp8_multiple - 1) / fp8_multiple * fp8_multiple; }

// What one scale of a matrix in 8 bits is for: what its numbers are multiplied by to be what they stand for.
enum class Fp8Scales : std::uint8_t {
  tensor,  // all of the matrix
  tiles,   // fp8_block numbers along the dimension that is summed over; each layout is rounded by scales of its own
  blocks,  // fp8_block x fp8_block numbers, the same ones in both layouts
};
constexpr std::int64_t fp8_block = 128;

// Of the scales of tiles or blocks of a layout [R, C], which is summed over along C, in f32: [C's tiles, R], or
// [R's blocks, C's blocks rounded up to a multiple of 4], zero behind those that there are. That is how cuBLASLt reads them.
inline Shape fp8_scale_shape(Fp8Scales scales, const Shape& layout) {
  const auto blocks = [](std::int64_t count) { return (count + fp8_block - 1) / fp8_block; };
  if (scales == Fp8Scales::tiles) return {blocks(layout[1]), layout[0]};
  return {blocks(layout[0]), (blocks(layout[1]) + 3) / 4 * 4};
}

// A matrix [M, N] in e4m3 or e5m2, in the two layouts that products of 8 bits need, in which the dimension that is summed over
// lies fastest.
struct Fp8Matrix {
  Tensor rows = {};   // [M, N]; without a shape: not there
  Tensor cols = {};   // [N, round_up_to_fp8(M)]: the transpose, zero behind its M columns; without a shape: not there
  Tensor scale = {};  // of tensor: [2] f32, the scale and the largest magnitude; else without a shape
  Fp8Scales scales = Fp8Scales::tensor;
  Tensor row_scales = {}, col_scales = {};  // of tiles and blocks: those of each layout that is there, see fp8_scale_shape()
};

inline Tensor largest_of(const Tensor& scale) { return scale.row_range(1, 2); }

// One layout of an Fp8Matrix: its rows or its cols.
struct Fp8Operand {
  Tensor values;
  Tensor scale;
  Fp8Scales scales = Fp8Scales::tensor;
};

}  // namespace pipetrain
