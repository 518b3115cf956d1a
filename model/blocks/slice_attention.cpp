#include "model/blocks/slice_attention.hpp"

namespace pipetrain {
namespace {

// Returns the keys and values of all slices, sequence by sequence: [batch R, 2 Hkv D], or the only slice's own matrix.
Tensor keys_of(const BlockContext& context, const SegmentShape& shape, const SliceKeys& slices) {
  if (slices.size() == 1) return slices.front();
  const Tensor all = context.workspace.allocate(context.slice->key_gradients.shape, context.dtype);
  gather_keys(context.ops, shape.batch, slices, all);
  return all;
}

}  // namespace

Tensor rows_of(const Tensor& matrix, std::int64_t batch, std::int64_t sequence, std::int64_t first, std::int64_t count) {
  const std::int64_t begin = sequence * (matrix.rows() / batch) + first;
  return matrix.row_range(begin, begin + count);
}

void copy_sequences(Ops& ops, const SequenceBlock& block, const SequenceRows& from, const SequenceRows& to) {
  // If a matrix has no other rows, its sequences are contiguous, and one copy takes them all.
  const std::int64_t all_rows = block.batch * block.rows;
  const std::int64_t copies = from.matrix.rows() == all_rows && to.matrix.rows() == all_rows ? 1 : block.batch;
  for (std::int64_t copy = 0; copy < copies; ++copy)
    ops.copy_columns({.source = rows_of(from.matrix, copies, copy, from.first, all_rows / copies),
                      .source_begin = from.column,
                      .target = rows_of(to.matrix, copies, copy, to.first, all_rows / copies),
                      .target_begin = to.column,
                      .count = block.cols});
}

void gather_keys(Ops& ops, std::int64_t batch, const SliceKeys& slices, const Tensor& all) {
  std::int64_t first = 0;
  for (const Tensor& slice : slices) {
    const std::int64_t rows = slice.rows() / batch;
    copy_sequences(ops, {batch, rows, all.cols()}, {slice, 0, slice.cols() - all.cols()}, {all, first});
    first += rows;
  }
}

void slice_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of) {
  const ArenaScope scope(context.workspace);
  context.ops.attention(shape, {.q = of.keys.back(),
                                .kv = keys_of(context, shape, of.keys),
                                .out = of.out,
                                .log_sum_exp = of.log_sum_exp,
                                .documents = context.documents,
                                .dropout = of.dropout});
}

void slice_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                              const SliceGradients& gradients) {
  const ArenaScope scope(context.workspace);
  const Tensor& key_gradients = context.slice->key_gradients;
  context.ops.attention_backward(shape, {.dout = gradients.out,
                                         .q = of.keys.back(),
                                         .kv = keys_of(context, shape, of.keys),
                                         .out = of.out,
                                         .log_sum_exp = of.log_sum_exp,
                                         .dq = gradients.qkv,
                                         .dkv = key_gradients,
                                         .accumulate_dkv = Accumulate::yes,
                                         .documents = context.documents,
                                         .dropout = of.dropout});
  copy_sequences(context.ops, {shape.batch, shape.queries, key_gradients.cols()}, {key_gradients, context.slice->first},
                 {gradients.qkv, 0, shape.query_cols()});
}

}  // namespace pipetrain
