// Causal attention where ranks share sequences (ContextPart): keys and values go round in a ring, and every rank attends from
// its queries to those that it has just then (Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite
// Context", arXiv 2310.01889). While it does, the next ones are on their way.
#pragma once

#include "model/blocks/slice_attention.hpp"

namespace pipetrain {

// Attends from the rank's tokens of a slice, or of whole sequences, to all tokens up to them in their sequences. shape: the
// queries are the rank's tokens. The context's documents are places in the whole sequence, and what is dropped is what one rank
// would drop. All members of the ring must make the same calls in the same order, and each has as many tokens of a slice as the
// others. log_sum_exp has the same number of elements as one rank's, in an order of its own: [batch, 2 chunks, Hq, tokens of a
// chunk]. Sums add in the order of the ring: first the rank's own, then those of the members before it. Each member's keys give
// a share in the activations' type, sums are fp32.
void ring_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of);
// The gradients of the keys and values of all the slices up to this one go round with them, in fp32: first the owner adds to
// them, then the members after it. In a context with a slice they begin as its key_gradients and are left there.
void ring_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                             const SliceGradients& gradients);

}  // namespace pipetrain
