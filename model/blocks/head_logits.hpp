// The logits of a head: a norm, unless its input is normed already, the output matrix, and a divisor if the model has one.
#pragma once

#include "model/blocks/normed_projection.hpp"

namespace pipetrain {

class HeadLogits {
 public:
  HeadLogits(const ModelConfig& config, const TensorParallel& tp, bool has_norm)
      : projection_(config, {TensorRole::output_weight}, has_norm,
                    LowRankAdapter::of(config, {BlockKind::head, 0}, TensorRole::output_weight, tp)),
        scale_(static_cast<float>(1 / config.logit_divisor)) {}
  void bind(const BoundTensors& tensors) { projection_.bind(tensors); }

  // See NormedProjection.
  Tensor forward(const BlockContext& context, const Tensor& input, const KeptMemory& memory,
                 NormedProjection::Saved& saved) const {
    const Tensor logits = projection_.forward(context, input, memory, saved);
    divide(context, logits);
    return logits;
  }
  // args.output_grad is the gradient of the logits that forward() returned; it is overwritten with that of the product.
  void backward(const BlockContext& context, const NormedProjection::BackwardArgs& args, WeightGradients& gradients,
                const NormedProjection::Saved& saved) const {
    divide(context, args.output_grad);
    projection_.backward(context, args, gradients, saved);
  }

 private:
  void divide(const BlockContext& context, const Tensor& logits) const {
    if (scale_ != 1) context.ops.scale({.x = logits, .out = logits, .factor = scale_, .exact = true});
  }

  NormedProjection projection_;
  float scale_;
};

}  // namespace pipetrain
