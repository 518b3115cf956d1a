// A row-parallel matrix whose output is added to the residual stream: how attention and MLP end.
#pragma once

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class ResidualProjection {
 public:
  explicit ResidualProjection(const MatrixRoles& roles) : roles_(roles) {}
  void bind(const BoundTensors& tensors);

  struct ForwardArgs {
    Tensor input;     // [T, K]
    Tensor residual;  // [Tr, H]
    Tensor output;    // [Tr, H], written: residual + input x matrix (+ bias)
  };
  void forward(const BlockContext& context, const ForwardArgs& args) const;

  struct BackwardArgs {
    Tensor output_grad;  // [Tr, H], which is the residual's gradient too
    Tensor input;        // [T, K], of the forward
    Tensor input_grad;   // [T, K], written
  };
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients) const;

 private:
  MatrixRoles roles_;
  BoundTensor matrix_, bias_;
};

}  // namespace pipetrain
