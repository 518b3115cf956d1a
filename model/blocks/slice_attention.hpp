// Attention from a slice of a microbatch's sequences to the keys and values of all slices up to it, which are
// first gathered into one matrix. A whole sequence is one slice.
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

struct SliceAttention {
  const SliceKeys& keys;
  Tensor out;            // [T, Hq D]
  Tensor log_sum_exp;    // [batch, Hq, queries] f32, over the keys of all the slices
  Dropout dropout = {};  // drops attention probabilities
};
struct SliceGradients {
  Tensor out;  // [T, Hq D], read
  Tensor qkv;  // [T, (Hq + 2 Hkv) D], output
};

// shape: the queries are the slice, the keys are those of the sequence up to its end. Writes the outputs. Uses workspace until
// the block's scope ends. ring_attention.hpp has the counterpart for ranks that share sequences.
void slice_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of);
// Runs the backward in a context with a slice, after that of all later slices. Adds to the context's key_gradients, and writes
// the whole gradient of the slice's own qkv. key_gradients must be zero before a microbatch's last slice.
void slice_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                              const SliceGradients& gradients);

}  // namespace pipetrain
