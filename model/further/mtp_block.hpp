// The block `mtp`, with which a further prediction begins (FurtherPrediction): the model's final norm, then a matrix that joins
// the normed embeddings of the next tokens with the normed output of the final norm.
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/norm.hpp"

namespace pipetrain {

class MtpBlock final : public BlockCompute {
 public:
  // For models with RMSNorms.
  MtpBlock(const ModelConfig& config, const TensorParallel& tp);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;

 private:
  struct MtpSaved;
  // An RMSNorm whose output fills half of the columns of the matrix's input.
  struct Half {
    BoundTensor norm;
    std::int64_t first = 0;  // column
  };
  void norm_half(const BlockContext& context, const Half& half, const Tensor& x, const Tensor& inv_rms,
                 const Tensor& joined) const;
  struct HalfGradient {
    Tensor joined_grad;                   // [Tr, 2H]
    Tensor x, inv_rms;                    // the forward's
    std::optional<Tensor> residual = {};  // [Tr, H], added to dx
    Tensor dx;                            // [Tr, H], output
  };
  void half_backward(const BlockContext& context, const Half& half, const HalfGradient& args) const;
  void table_backward(const BlockContext& context, const Tensor& embedding_grad, const Tensor& ids) const;

  VocabularyRows vocabulary_;                  // of this rank
  std::optional<std::int64_t> untrained_row_;  // among this rank's rows; empty if another rank has it
  float eps_;
  Norm final_norm_;
  Half embedding_, hidden_;
  BoundTensor table_, join_;
};

}  // namespace pipetrain
