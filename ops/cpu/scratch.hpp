// The workspace of each operation, in one place: operations and measuring ops call the same functions, so the
// measured size equals the used size. It is bump-allocated, and the caller rewinds.
#pragma once

#include "core/buffer.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

// An operation without an overload below uses no workspace.
template <class Args>
void scratch_of(Arena&, const Args&) {}

// With several ranks: this rank's product [T, N], and, if sequence parallel, this rank's rows of the sum.
struct ScatterScratch {
  Tensor product, sum;
};
inline ScatterScratch scratch_of(Arena& arena, const MatmulScatterArgs& args) {
  if (args.tp.size() == 1) return {};
  // Out may have no rows, but has columns.
  const Tensor product = arena.allocate({args.in.rows(), args.out.shape[1]}, DType::f32);
  return {product, args.tp.sequence_parallel ? arena.allocate(args.out.shape, DType::f32) : product};
}
inline void scratch_of(Arena& arena, const BackwardScatterArgs& args) { scratch_of(arena, args.matmul_scatter()); }

inline ScatterScratch scratch_of(Arena& arena, const SumRowsArgs& args) {
  if (args.tp.size() == 1) return {};
  const Tensor product = arena.allocate({args.places.rows(), args.out.shape[1]}, DType::f32);
  return {product, args.tp.sequence_parallel ? arena.allocate(args.out.shape, DType::f32) : product};
}

// Allocates memory for every slice if there are several ranks.
inline Tensor scratch_of(Arena& arena, const SumCopiesArgs& args) {
  return args.tp.size() == 1 ? Tensor{} : arena.allocate({args.slices, args.values.elements()}, DType::f32);
}

// With several ranks, allocates a row for every token, for the part that this rank has. The memory is for f32, but used in
// the table's type.
inline Tensor scratch_of(Arena& arena, const EmbeddingArgs& args) {
  return args.tp.size() == 1 ? Tensor{} : arena.allocate({args.ids.elements(), args.table.cols()}, DType::f32);
}

// The scratch of operations that sum columns: the sums of each tile.
inline Tensor column_sums(Arena& arena, const Tensor& x) {
  return arena.allocate({row_tiles(x.rows(), x.cols()), x.cols()}, DType::f32);
}
inline Tensor scratch_of(Arena& arena, const RmsNormBackwardArgs& args) { return column_sums(arena, args.x); }
inline Tensor scratch_of(Arena& arena, const SplitNormBackwardArgs& args) { return column_sums(arena, args.x); }
inline Tensor scratch_of(Arena& arena, const GeluBackwardArgs& args) { return column_sums(arena, args.x); }
inline Tensor scratch_of(Arena& arena, const BiasGradArgs& args) { return column_sums(arena, args.dy); }

struct LayerNormScratch {
  Tensor partial, residual_sums;
};
inline LayerNormScratch scratch_of(Arena& arena, const LayerNormBackwardArgs& args) {
  const Tensor partial = arena.allocate({row_tiles(args.x.rows(), args.x.cols()), 2, args.x.cols()}, DType::f32);
  return {partial, args.residual_sums ? column_sums(arena, *args.residual) : Tensor{}};
}

inline LossSums scratch_of(Arena& arena, const CrossEntropyArgs& args) {
  const std::int64_t tokens = args.targets.elements();
  const Tensor maxima = arena.allocate({tokens}, DType::f32);
  return {maxima, arena.allocate({2, tokens}, DType::f32)};
}

// The sums of the norm blocks.
inline Tensor scratch_of(Arena& arena, const SquareSumArgs& args) {
  return arena.allocate({(args.tensor.elements() + square_sum_block - 1) / square_sum_block}, DType::f64);
}
inline void scratch_of(Arena& arena, const SquareSumEachArgs& args) {
  for (const SquareSumArgs& one : args.sums) {
    const ArenaScope scope(arena);
    scratch_of(arena, one);
  }
}

}  // namespace pipetrain::cpu
