// The workspace of each operation, in one place: operations and measuring ops call the same functions, so the measured size is
// the used size. All of it is bump-allocated; the caller rewinds.
#pragma once

#include "core/buffer.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

// Of matmul_scatter with several ranks: the product of this rank [T, N], and this rank's rows of the sum where they are fewer.
struct ScatterScratch {
  Tensor product, sum;
  ScatterScratch(Arena& arena, const TensorParallel& tp, const Tensor& in, const Tensor& out) {
    if (tp.size() == 1) return;
    product = arena.allocate({in.rows(), out.shape[1]}, DType::f32);  // out may have no rows, but has columns
    sum = tp.sequence_parallel ? arena.allocate(out.shape, DType::f32) : product;
  }
};

// Of embedding with several ranks: every token's row as far as this rank has it; memory for f32, used in the table's type.
struct EmbeddingScratch {
  Tensor rows;
  EmbeddingScratch(Arena& arena, const TensorParallel& tp, const Tensor& ids, const Tensor& table) {
    if (tp.size() > 1) rows = arena.allocate({ids.elements(), table.cols()}, DType::f32);
  }
};

// Of operations that add up columns: the tiles' sums.
struct ColumnScratch {
  Tensor partial;
  ColumnScratch(Arena& arena, const Tensor& x) {
    partial = arena.allocate({row_tiles(x.rows(), x.cols()), x.cols()}, DType::f32);
  }
};

struct LayerNormScratch {
  Tensor partial;
  LayerNormScratch(Arena& arena, const Tensor& x) {
    partial = arena.allocate({row_tiles(x.rows(), x.cols()), 2, x.cols()}, DType::f32);
  }
};

struct LossScratch {
  Tensor maxima, sums;
  LossScratch(Arena& arena, const Tensor& targets) {
    maxima = arena.allocate({targets.elements()}, DType::f32);
    sums = arena.allocate({2, targets.elements()}, DType::f32);
  }
};

struct SquareSumScratch {
  Tensor partial;
  SquareSumScratch(Arena& arena, const Tensor& tensor) {
    partial = arena.allocate({(tensor.elements() + square_sum_block - 1) / square_sum_block}, DType::f64);
  }
};

}  // namespace pipetrain::cpu
