// ChunkedHeadBlock is HeadBlock for a microbatch's tokens in chunks. It computes norm, logits and cross-entropy for one chunk
// after the other, and computes them again in the backward. The logits of all tokens never exist at once, so long sequences
// and large vocabularies fit; the cost is a second forward of the output matrix. (Hsu et al. 2024, "Liger Kernel", use the
// same chunks, but compute gradients in the forward, which the schedules' order of B, I and W does not allow.) Weight
// gradients and the loss add up chunk by chunk, so their bits depend on the number of chunks. Slices of a microbatch use this
// head too, with one or more chunks a slice.
//
// If the backward is split, the gradients of all chunks' logits wait for W: T x V numbers from I until W.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/head_logits.hpp"
#include "model/blocks/sequence_losses.hpp"

namespace pipetrain {

class ChunkedHeadBlock final : public BlockCompute {
 public:
  // chunks: reduced if a rank has fewer tokens. Not for classification. has_norm: see HeadBlock.
  ChunkedHeadBlock(const ModelConfig& config, const TensorParallel& tp, int chunks, bool has_norm = true);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;

 private:
  VocabularyRows vocabulary_;  // of this rank
  HeadLogits logits_;
  SequenceLosses losses_;
  int chunks_;
};

}  // namespace pipetrain
