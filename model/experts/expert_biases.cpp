#include "model/experts/expert_biases.hpp"

namespace pipetrain {
namespace {

// Returns the first of the outputs' columns whose biases this rank has.
std::int64_t first_biased_column(const BlockContext& context, const Tensor& outputs) {
  return context.tp.rank() * (outputs.shape[1] / context.tp.size());
}

}  // namespace

void ExpertBiases::bind(const BoundTensors& tensors) {
  in_ = tensors.at(TensorRole::expert_in_bias);
  out_ = tensors.at(TensorRole::expert_out_bias);
}

void ExpertBiases::projected_backward(const BlockContext& context, const Tensor& projected_grad, const ExpertRows& rows) const {
  context.ops.expert_bias_backward(
      {.dy = projected_grad, .bias = in_.weight, .offsets = rows.offsets, .dbias = sums_of(context, in_)});
}

GroupedBias ExpertBiases::of_outputs(const BlockContext& context, const Tensor& outputs, const ExpertRows& rows) const {
  return {.bias = out_.weight, .weights = rows.weights, .first_column = first_biased_column(context, outputs)};
}

Tensor ExpertBiases::outputs_backward(const BlockContext& context, const Tensor& output_grads, const ExpertRows& rows) const {
  const Tensor dots = context.workspace.allocate({output_grads.rows()}, DType::f32);
  const ArenaScope scope(context.workspace);
  context.ops.expert_bias_backward({.dy = output_grads,
                                    .bias = out_.weight,
                                    .offsets = rows.offsets,
                                    .weights = rows.weights,
                                    .first_column = first_biased_column(context, output_grads),
                                    .dbias = sums_of(context, out_),
                                    .dots = dots});
  return dots;
}

}  // namespace pipetrain
