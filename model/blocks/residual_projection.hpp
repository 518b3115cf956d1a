// A row-parallel matrix whose output is added to the residual stream: how attention and MLP end.
#pragma once

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class ResidualProjection {
 public:
  explicit ResidualProjection(const MatrixRoles& roles) : roles_(roles) {}
  void bind(const BoundTensors& tensors);

  // output [Tr, H] = residual [Tr, H] + input [T, K] x matrix (+ bias)
  void forward(const BlockContext& context, const Tensor& input, const Tensor& residual, const Tensor& output) const;
  // input_grad [T, K]. The residual's gradient is output_grad itself. input is the forward's.
  void backward(const BlockContext& context, const Tensor& output_grad, const Tensor& input, const Tensor& input_grad,
                WeightGradients& gradients) const;

 private:
  MatrixRoles roles_;
  BoundTensor matrix_, bias_;
};

}  // namespace pipetrain
