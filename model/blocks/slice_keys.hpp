// The keys and values of the slices of a microbatch's sequence, which the attention of a later slice reads together.
#pragma once

#include <vector>

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

// One matrix a slice up to the context's own, in order: [T of the slice, (Hq + 2 Hkv) D], rotated where positions are rotary.
using SliceKeys = std::vector<Tensor>;

// Copies `count` rows of one sequence, from its row `first` on, out of a matrix with the rows of `batch` sequences.
Tensor rows_of(const Tensor& matrix, std::int64_t batch, std::int64_t sequence, std::int64_t first, std::int64_t count);

// Rows of every sequence from row `first` and column `column` on, in a matrix with the rows of all sequences.
struct SequenceRows {
  Tensor matrix;
  std::int64_t first = 0, column = 0;
};
struct SequenceBlock {
  std::int64_t batch, rows, cols;  // rows and cols: of each sequence
};
void copy_sequences(Ops& ops, const SequenceBlock& block, const SequenceRows& from, const SequenceRows& to);

// all [batch R, 2 Hkv D], R >= the slices' tokens: the first rows of each sequence become the keys and values
// of the slices, in order.
void gather_keys(Ops& ops, std::int64_t batch, const SliceKeys& slices, const Tensor& all);

}  // namespace pipetrain
