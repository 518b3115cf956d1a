// Causal attention of ranks that share sequences (ContextPart): keys and values go round in a ring, and every
// rank attends from its queries to those that it holds at the moment (Liu et al. 2023, "Ring Attention with
// Blockwise Transformers for Near-Infinite Context", arXiv 2310.01889), while the next ones are in transfer.
#pragma once

#include "model/blocks/slice_attention.hpp"

namespace pipetrain {

// Attends from the rank's tokens of a slice, or of whole sequences, to all tokens up to them in their sequences. shape: the
// queries are the rank's tokens. The context's documents are positions in the whole sequence, and dropout drops what a single
// rank would drop. All members of the ring must make the same calls in the same order, with equally many tokens of a slice.
// log_sum_exp has as many elements as a single rank's, in another order: [batch, 2 chunks, Hq, tokens of a chunk]. Sums are
// added in the order of the ring: first the rank's own, then those of the members before it. Each member's keys contribute in
// the activations' type; sums are fp32.
void ring_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of);
// The gradients of the keys and values of all slices up to this one go round with them, in fp32: first the
// owner adds to them, then the members after it. In a context with a slice they start from its key_gradients,
// and the sums are stored back there.
void ring_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                             const SliceGradients& gradients);

}  // namespace pipetrain
