#include "model/blocks/slice_keys.hpp"

namespace pipetrain {

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

}  // namespace pipetrain
