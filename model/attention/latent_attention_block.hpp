// Attention whose queries, keys and values are expanded from latent vectors (DeepSeek-AI 2024, "DeepSeek-V2: A Strong,
// Economical, and Efficient Mixture-of-Experts Language Model", section 2.1). Heads are spread over the tensor-parallel group.
// Each rank compresses its own rows, so that ranks exchange the latent vectors rather than hidden states.
#pragma once

#include "model/attention/adapted_matrix.hpp"
#include "model/attention/self_attention.hpp"
#include "model/blocks/norm.hpp"

namespace pipetrain {

class LatentAttentionBlock final : public SelfAttention {
 public:
  LatentAttentionBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;
  void cached_forward(const BlockContext& context, const CachedForwardArgs& args) const override;

 private:
  struct LatentSaved;
  // A latent vector of this rank's rows, before and after its norm, and the normed one of all rows.
  struct Latent {
    Tensor own;                         // [Tr, rank], before the norm
    Tensor inv_rms;                     // [Tr] f32
    Tensor all;                         // [T, rank], normed
    LowRankAdapter::Saved expand = {};  // of the matrix that expands it, if that one has adapters

    void relocate(const Relocation& moved) {
      for (Tensor* const view : {&own, &inv_rms, &all}) moved.move(*view);
      expand.relocate(moved);
    }
  };

  void attend(const BlockContext& context, const Tensor& input, const KeptMemory& memory, HeadsSaved& saved) const override;
  // Computes the norm's output, the latent vectors and the shared columns of the keys from saved.input.
  void compress(const BlockContext& context, const KeptMemory& memory, LatentSaved& saved) const;
  Latent latent(const BlockContext& context, const Tensor& own, const BoundTensor& norm, const KeptMemory& memory) const;
  // Returns [T, Hq D]: the queries, before they rotate. What their adapters save must be reserved.
  Tensor queries(const BlockContext& context, const LatentSaved& saved) const;
  // Returns the gradient of this rank's rows of a latent vector before its norm, [Tr, rank], in the workspace. Adds the
  // gradient of the matrix that expands it, whose output has the gradient output_grad.
  Tensor latent_backward(const BlockContext& context, const Tensor& output_grad, const AdaptedMatrix& expand,
                         const BoundTensor& norm, WeightGradients& gradients, const Latent& latent) const;
  // Runs the backward from the gradient of qkv to that of the block's norm's output.
  Tensor expand_backward(const BlockContext& context, const Tensor& qkv_grad, WeightGradients& gradients,
                         const LatentSaved& saved) const;
  bool has_query_latent() const { return sizes_.query_rank > 0; }

  LatentAttention sizes_;
  bool interleaved_;
  float latent_eps_;
  Norm norm_;
  BoundTensor query_norm_, key_norm_;
  AdaptedMatrix compress_, query_expand_, key_value_expand_;
};

}  // namespace pipetrain
