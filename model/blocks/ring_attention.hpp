// Causal attention where ranks share sequences (ContextPart): keys and values go round in a ring, and every rank attends from
// its queries to those that it has just then (Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite
// Context", arXiv 2310.01889). While it does, the next ones are on their way.
#pragma once

#include "model/blocks/slice_attention.hpp"

namespace pipetrain {

// Ops::attention and its backward, of the rank's tokens to all tokens of their sequences: the shape's queries are the rank's
// tokens, and q, kv, dq and dkv are columns of packed matrices. Documents are places in the whole
// sequence, [T] of the rank's tokens, and what is dropped is what one rank would drop. All members of the ring must make the
// same calls in the same order. log_sum_exp has the same number of elements, in an order of its own: [batch, 2 chunks, Hq,
// tokens of a chunk]. Sums add in the order of the ring: first the rank's own, then those of the members before it. What each
// member's keys give is of the activations' type, sums are fp32.
void ring_attention(const BlockContext& context, const SegmentShape& shape, const AttentionArgs& args);
// The gradients of keys and values go round with them, in fp32: first the owner adds to them, then the members after it.
void ring_attention_backward(const BlockContext& context, const SegmentShape& shape, const AttentionBackwardArgs& args);

// slice_attention() and its backward of the ranks that share sequences, each of which has its part of every slice, of as many
// tokens as of the others. What goes round is the keys and values of all the slices up to this one, and their gradients, to
// which the context's key_gradients are added at home.
void ring_slice_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of);
void ring_slice_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                                   const SliceGradients& gradients);

}  // namespace pipetrain
