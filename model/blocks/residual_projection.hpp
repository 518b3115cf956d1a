// A row-parallel matrix whose output is added to the residual stream, after dropout: how attention and MLP end.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"

namespace pipetrain {

class ResidualProjection {
 public:
  ResidualProjection(const MatrixRoles& roles, const DropoutSite& dropout) : roles_(roles), dropout_(dropout) {}
  void bind(const BoundTensors& tensors);

  struct ForwardArgs {
    Tensor input;     // [T, K]
    Tensor residual;  // [Tr, H]
    Tensor output;    // [Tr, H], written: residual + dropout(input x matrix (+ bias))
  };
  void forward(const BlockContext& context, const ForwardArgs& args) const;

  struct BackwardArgs {
    Tensor output_grad;  // [Tr, H], which is the residual's gradient too
    Tensor input;        // [T, K], of the forward
    Tensor input_grad;   // [T, K], written
  };
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients) const;

 private:
  // The gradient of what is dropped from, [Tr, H], where the rows that are gathered from it will be.
  Tensor undropped(const BlockContext& context, const Tensor& output_grad, const Tensor& gathered) const;

  MatrixRoles roles_;
  DropoutSite dropout_;
  BoundTensor matrix_, bias_;
};

}  // namespace pipetrain
