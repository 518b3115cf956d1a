// Norm, causal self-attention (within a window of positions, if the layer is windowed), residual; positions are rotary unless
// the embedding has added learned ones or the layer has none. Heads are spread over the tensor-parallel group.
#pragma once

#include <optional>

#include "model/attention/self_attention.hpp"
#include "model/blocks/head_norms.hpp"
#include "model/blocks/normed_projection.hpp"
#include "model/blocks/projection_norms.hpp"

namespace pipetrain {

class AttentionBlock final : public SelfAttention {
 public:
  AttentionBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;
  void cached_forward(const BlockContext& context, const CachedForwardArgs& args) const override;

 private:
  struct AttentionSaved;

  void attend(const BlockContext& context, const Tensor& input, const KeptMemory& memory, HeadsSaved& saved) const override;
  // Norms the heads of queries and keys if the model does, and rotates them if there are angles.
  void norm_and_rotate(const BlockContext& context, const SegmentShape& shape, const HeadNorms::ForwardArgs& args,
                       HeadNorms::Saved& norms) const;
  // Runs the backward of the attention and of the rotation.
  void attention_backward(const BlockContext& context, const Tensor& heads_grad, const AttentionSaved& saved,
                          const Tensor& qkv_grad) const;
  void rotate_back(const BlockContext& context, const Tensor& qkv_grad) const;
  // Returns the table for all positions of the context.
  const Tensor& rotary_table(const BlockContext& context) const;

  bool rotary_;  // queries and keys rotate
  NormedProjection qkv_;
  std::optional<HeadNorms> head_norms_;
  std::optional<ProjectionNorms> projection_norms_;
};

}  // namespace pipetrain
