#include "model/blocks/slice_keys.hpp"

namespace pipetrain {

Tensor rows_of(const Tensor& matrix, std::int64_t batch, std::int64_t sequence, std::int64_t first, std::int64_t count) {
  const std::int64_t begin = sequence * (matrix.rows() / batch) + first;
  return matrix.row_range(begin, begin + count);
}

void gather_keys(Ops& ops, std::int64_t batch, const SliceKeys& slices, const Tensor& all) {
  std::int64_t first = 0;
  for (const Tensor& slice : slices) {
    const std::int64_t rows = slice.rows() / batch;
    for (std::int64_t sequence = 0; sequence < batch; ++sequence)
      ops.copy_columns({.source = rows_of(slice, batch, sequence, 0, rows),
                        .source_begin = slice.cols() - all.cols(),
                        .target = rows_of(all, batch, sequence, first, rows),
                        .count = all.cols()});
    first += rows;
  }
}

}  // namespace pipetrain
