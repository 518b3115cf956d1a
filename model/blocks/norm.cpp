#include "model/blocks/norm.hpp"

namespace pipetrain {

void Norm::bind(const BoundTensors& tensors) {
  weight_ = tensors.at(TensorRole::norm_weight);
  if (kind_ == NormKind::layer) bias_ = tensors.at(TensorRole::norm_bias);
}

Norm::Statistics Norm::allocate_statistics(std::int64_t rows, Arena& memory) const {
  Statistics statistics;
  if (kind_ == NormKind::layer) statistics.mean = memory.allocate({rows}, DType::f32);
  statistics.inv_scale = memory.allocate({rows}, DType::f32);
  return statistics;
}

void Norm::forward(Ops& ops, const ForwardArgs& args) const {
  const auto& [x, y, statistics, largest] = args;
  switch (kind_) {
    case NormKind::rms:
      return ops.rms_norm({.x = x,
                           .weight = weight_.weight,
                           .eps = eps_,
                           .y = y,
                           .inv_rms = statistics.inv_scale,
                           .largest = largest,
                           .offset = offset_});
    case NormKind::layer:
      return ops.layer_norm({.x = x,
                             .weight = weight_.weight,
                             .bias = bias_.weight,
                             .eps = eps_,
                             .y = y,
                             .mean = statistics.mean,
                             .inv_std = statistics.inv_scale,
                             .largest = largest});
  }
}

void Norm::backward(const BlockContext& context, const BackwardArgs& args) const {
  const ArenaScope scope(context.workspace);
  Ops& ops = context.ops;
  const auto& [dy, x, statistics, residual, dx, residual_sums] = args;
  switch (kind_) {
    case NormKind::rms:
      if (residual_sums) ops.bias_grad(*residual, *residual_sums);
      return ops.rms_norm_backward({.dy = dy,
                                    .x = x,
                                    .weight = weight_.weight,
                                    .inv_rms = statistics.inv_scale,
                                    .residual = residual,
                                    .dx = dx,
                                    .dweight = sums_of(context, weight_),
                                    .offset = offset_});
    case NormKind::layer:
      return ops.layer_norm_backward({.dy = dy,
                                      .x = x,
                                      .weight = weight_.weight,
                                      .mean = statistics.mean,
                                      .inv_std = statistics.inv_scale,
                                      .residual = residual,
                                      .dx = dx,
                                      .dweight = sums_of(context, weight_),
                                      .dbias = sums_of(context, bias_),
                                      .residual_sums = residual_sums});
  }
}

}  // namespace pipetrain
