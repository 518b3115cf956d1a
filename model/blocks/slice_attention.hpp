// Attention of a slice of a microbatch's sequence to the keys and values of the slices up to it, which are gathered for it.
#pragma once

#include "model/blocks/slice_keys.hpp"

namespace pipetrain {

struct SliceAttention {
  const SliceKeys& keys;
  Tensor out;            // [T, Hq D]
  Tensor log_sum_exp;    // [batch, Hq, sequence] f32, over the keys of all the slices
  Dropout dropout = {};  // of the probabilities
};
struct SliceGradients {
  Tensor out;  // [T, Hq D], read
  Tensor qkv;  // [T, (Hq + 2 Hkv) D], written
};

// Where ranks share sequences see ring_attention.hpp. shape: the context's slice and the keys up to its end. Writes the
// outputs. Takes workspace for the length of the block's scope.
void slice_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of);
// Its backward, after that of all later slices: adds to the context's key_gradients, and writes the whole gradient of the
// slice's own qkv. Before a microbatch's last slice these must be zero.
void slice_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                              const SliceGradients& gradients);

}  // namespace pipetrain
