// The head of a model with a further prediction (FurtherPrediction). One matrix makes the logits of both: the model's own, from
// the output of the final norm, and those of the token after the next one, from its own input through a norm of its own.
#pragma once

#include <memory>

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class MtpHeadBlock final : public BlockCompute {
 public:
  // own: the head of the model's own prediction, which begins without a norm. further: that of the token after the next one.
  // weight: of the further prediction's loss.
  MtpHeadBlock(std::unique_ptr<BlockCompute> own, std::unique_ptr<BlockCompute> further, double weight);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;

 private:
  std::unique_ptr<BlockCompute> own_, further_;
  float weight_;
};

}  // namespace pipetrain
