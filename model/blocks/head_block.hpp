// Final norm, output matrix and cross-entropy. The columns of the vocabulary, or of the classes, are spread over the
// tensor-parallel group.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/head_logits.hpp"
#include "model/blocks/sequence_losses.hpp"

namespace pipetrain {

class HeadBlock final : public BlockCompute {
 public:
  // has_norm: false for an input that is the output of the final norm.
  HeadBlock(const ModelConfig& config, const TensorParallel& tp, bool has_norm = true);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  // Overwrites the saved logits with their gradient.
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;
  void cached_forward(const BlockContext& context, const CachedForwardArgs& args) const override;

 private:
  VocabularyRows vocabulary_;  // this rank's rows of the vocabulary, or its classes
  HeadLogits logits_;
  SequenceLosses losses_;
};

}  // namespace pipetrain
