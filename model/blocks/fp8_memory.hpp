// Memory for matrices in 8 bits that blocks make, and their layouts as operands of products.
#pragma once

#include <optional>

#include "core/buffer.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

inline Fp8Operand rows_of(const Fp8Matrix& matrix) { return {matrix.rows, matrix.scale}; }
inline Fp8Operand cols_of(const Fp8Matrix& matrix) { return {matrix.cols, matrix.scale}; }

inline Tensor allocate_fp8_scale(Arena& memory) { return memory.allocate({2}, DType::f32); }

// The arenas of a matrix's layouts; null: it is not to have that one.
struct Fp8Places {
  Arena* rows = nullptr;
  Arena* cols = nullptr;
};
// scale: where it is already; else it lies with the cols, or without them with the rows.
inline Fp8Matrix allocate_fp8(const Shape& shape, DType type, const Fp8Places& places,
                              const std::optional<Tensor>& scale = std::nullopt) {
  Fp8Matrix matrix;
  if (places.cols) matrix.cols = places.cols->allocate({shape[1], round_up_to_fp8(shape[0])}, type);
  matrix.scale = scale ? *scale : allocate_fp8_scale(places.cols ? *places.cols : *places.rows);
  if (places.rows) matrix.rows = places.rows->allocate(shape, type);
  return matrix;
}

}  // namespace pipetrain
