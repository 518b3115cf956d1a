// Attention from a slice of a microbatch's sequences to the keys and values of all slices up to it, which are
// first gathered into one matrix. A whole sequence is one slice.
#pragma once

#include "model/blocks/slice_keys.hpp"

namespace pipetrain {

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
