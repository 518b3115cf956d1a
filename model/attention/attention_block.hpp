// Norm, causal self-attention (within a window of positions, if the layer is windowed), residual; positions are rotary unless
// the embedding has added learned ones or the layer has none. Heads are spread over the tensor-parallel group.
#pragma once

#include <optional>

#include "model/attention/packed_attention.hpp"
#include "model/blocks/block_compute.hpp"
#include "model/blocks/head_norms.hpp"
#include "model/blocks/normed_projection.hpp"
#include "model/blocks/projection_norms.hpp"
#include "model/blocks/residual_projection.hpp"

namespace pipetrain {

class AttentionBlock final : public BlockCompute {
 public:
  AttentionBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;
  void cached_forward(const BlockContext& context, const CachedForwardArgs& args) const override;

 private:
  struct AttentionSaved;

  // Runs the forward up to the heads' output.
  void attend(const BlockContext& context, const Tensor& input, const KeptMemory& memory, AttentionSaved& saved) const;
  // Norms the heads of queries and keys if the model does, and rotates them if there are angles.
  void norm_and_rotate(const BlockContext& context, const SegmentShape& shape, const HeadNorms::ForwardArgs& args,
                       HeadNorms::Saved& norms) const;
  // Runs the backward of the attention and of the rotation.
  void attention_backward(const BlockContext& context, const Tensor& heads_grad, const AttentionSaved& saved,
                          const Tensor& qkv_grad) const;
  void rotate_back(const BlockContext& context, const Tensor& qkv_grad) const;
  // Returns the keys and values of the slices up to this one, or those of the whole sequence if it is not sliced.
  SliceKeys slice_keys(const BlockContext& context, const AttentionSaved& saved) const;

  // The tables for all positions of the context, and from the first of the slice's positions on where they do not count from a
  // document's.
  const Tensor& rotary_table(const BlockContext& context) const;
  // Returns the rotations from the slice's first position on, or all of them if positions restart with each document.
  Tensor angles(const BlockContext& context) const;

  bool rotary_;  // queries and keys rotate
  PackedAttention attention_;
  NormedProjection qkv_;
  std::optional<HeadNorms> head_norms_;
  std::optional<ProjectionNorms> projection_norms_;
  ResidualProjection out_;
};

}  // namespace pipetrain
