// Memory for matrices in 8 bits that blocks compute, and the layouts in which products take them.
#pragma once

#include <optional>

#include "core/buffer.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

inline bool has_tensor_scale(const Fp8Matrix& matrix) { return matrix.scales == Fp8Scales::tensor; }

inline Fp8Operand rows_of(const Fp8Matrix& matrix) {
  return {matrix.rows, has_tensor_scale(matrix) ? matrix.scale : matrix.row_scales, matrix.scales};
}
inline Fp8Operand cols_of(const Fp8Matrix& matrix) {
  return {matrix.cols, has_tensor_scale(matrix) ? matrix.scale : matrix.col_scales, matrix.scales};
}

// The settings by which a matrix is rounded.
struct Fp8Form {
  DType type = DType::e4m3;
  Fp8Scales scales = Fp8Scales::tensor;
};
// The form of the values that are multiplied with this weight, and of the gradients of its products.
inline Fp8Form values_beside(const Fp8Matrix& weight) {
  return {DType::e4m3, has_tensor_scale(weight) ? Fp8Scales::tensor : Fp8Scales::tiles};
}
inline Fp8Form gradients_beside(const Fp8Matrix& weight) {
  return has_tensor_scale(weight) ? Fp8Form{DType::e5m2, Fp8Scales::tensor} : Fp8Form{DType::e4m3, Fp8Scales::tiles};
}

inline Tensor allocate_fp8_scale(Arena& memory) { return memory.allocate({2}, DType::f32); }

// The arenas of a matrix's layouts; null for a layout that is not wanted.
struct Fp8Arenas {
  Arena* rows = nullptr;
  Arena* cols = nullptr;
};
// scale: the tensor's scale if it exists already; otherwise it is allocated with the cols, or with the rows if
// there are no cols. Scales of tiles and of blocks are allocated with their layout.
inline Fp8Matrix allocate_fp8(const Shape& shape, const Fp8Form& form, const Fp8Arenas& arenas,
                              const std::optional<Tensor>& scale = std::nullopt) {
  Fp8Matrix matrix;
  matrix.scales = form.scales;
  const bool of_tensor = has_tensor_scale(matrix);
  const auto scales_of = [&](Arena& memory, const Tensor& layout) {
    return of_tensor ? Tensor{} : memory.allocate(fp8_scale_shape(form.scales, layout.shape), DType::f32);
  };
  if (arenas.cols) {
    matrix.cols = arenas.cols->allocate({shape[1], round_up_to_fp8(shape[0])}, form.type);
    matrix.col_scales = scales_of(*arenas.cols, matrix.cols);
  }
  if (of_tensor) matrix.scale = scale ? *scale : allocate_fp8_scale(arenas.cols ? *arenas.cols : *arenas.rows);
  if (arenas.rows) {
    matrix.rows = arenas.rows->allocate(shape, form.type);
    matrix.row_scales = scales_of(*arenas.rows, matrix.rows);
  }
  return matrix;
}

}  // namespace pipetrain
