// The head of HeadBlock, with a microbatch's tokens in chunks: norm, logits and cross-entropy of one chunk after the other, and
// all of it again in the backward. Logits never stand whole, so that long sequences and large vocabularies fit; this costs the
// output matrix's forward a second time. (Hsu et al. 2024, "Liger Kernel", take the same chunks, but compute gradients in the
// forward, which the schedules' order of B, I and W does not allow.) Weight gradients and the loss add up chunk by chunk, so
// their bits depend on how many chunks there are. Slices of a microbatch have such a head too, of one chunk or more a slice.
//
// Where the backward is split, the chunks' gradients of logits wait for W, all of them: T x V numbers from I until W.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/normed_projection.hpp"

namespace pipetrain {

class ChunkedHeadBlock final : public BlockCompute {
 public:
  // chunks: fewer where a rank has fewer tokens. Not for classification.
  ChunkedHeadBlock(const ModelConfig& config, const TensorParallel& tp, int chunks);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;

 private:
  VocabularyRows vocabulary_;  // of this rank
  NormedProjection logits_;
  int chunks_;
};

}  // namespace pipetrain
