// The biases of the matrices of routed experts (GPT-OSS has them). Rows are sorted by expert, as ExpertRows says.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/experts/expert_exchange.hpp"

namespace pipetrain {

// R: rows that this rank's experts compute. Of the last matrices' biases each tensor-parallel rank has those of some columns,
// and the ranks' outputs are added.
class ExpertBiases {
 public:
  void bind(const BoundTensors& tensors);

  // Returns the biases of the first matrices.
  GroupedBias of_projected() const { return {.bias = in_.weight}; }
  // Adds to the gradients of these biases, from the gradient of `projected`.
  void projected_backward(const BlockContext& context, const Tensor& projected_grad, const ExpertRows& rows) const;
  // Returns the biases of the last matrices, times the rows' weights. outputs: [R, H].
  GroupedBias of_outputs(const BlockContext& context, const Tensor& outputs, const ExpertRows& rows) const;
  // Adds to the gradients of these biases. Returns the gradient of the rows' weights through them, [R] f32, in the workspace.
  Tensor outputs_backward(const BlockContext& context, const Tensor& output_grads, const ExpertRows& rows) const;

 private:
  BoundTensor in_, out_;  // [E 2I], and [E H / ranks]
};

}  // namespace pipetrain
