// A row-parallel matrix whose output is added to the residual stream, after dropout: how attention and MLP end.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"

namespace pipetrain {

class ResidualProjection {
 public:
  ResidualProjection(const MatrixRoles& roles, const DropoutSite& dropout) : roles_(roles), dropout_(dropout) {}
  void bind(const BoundTensors& tensors);

  bool in_fp8() const { return matrix_.in_fp8(); }
  // Whether tensors beside the matrix have one scale, which whatever computes them can measure.
  bool takes_scale() const { return in_fp8() && matrix_.fp8.scales == Fp8Scales::tensor; }

  // Of a matrix in 8 bits.
  struct Saved {
    Fp8Matrix input = {};  // its cols, where they are kept
  };

  struct ForwardArgs {
    Tensor input;                      // [T, K]
    Tensor residual;                   // [Tr, H]
    Tensor output;                     // [Tr, H], written: residual + dropout(input x matrix (+ bias))
    Arena* kept = nullptr;             // in 8 bits: for the input's cols; null: the backward makes them again
    std::optional<Tensor> scale = {};  // [2] f32 where takes_scale(): ends with input's largest magnitude; kept as the cols are
  };
  void forward(const BlockContext& context, const ForwardArgs& args, Saved& saved) const;

  struct BackwardArgs {
    Tensor output_grad;  // [Tr, H], which is the residual's gradient too
    Tensor input;        // [T, K], of the forward; in 8 bits only where its cols were not kept
    Tensor input_grad;   // [T, K], written
  };
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, const Saved& saved) const;
  // The bias's gradient, where it is the sum of output_grad's columns: it is then left to the norm of the block, which reads
  // them as the residual's gradient anyway.
  std::optional<Tensor> residual_sums(const BlockContext& context) const;

 private:
  void multiply(const BlockContext& context, const ForwardArgs& args, const std::optional<Tensor>& residual,
                Saved& saved) const;
  void backward_in_fp8(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                       const Saved& saved) const;
  // The gradient of what is dropped from, [Tr, H], where the rows that are gathered from it will be.
  Tensor undropped(const BlockContext& context, const Tensor& output_grad, const Tensor& gathered) const;

  MatrixRoles roles_;
  DropoutSite dropout_;
  BoundTensor matrix_, bias_;
};

}  // namespace pipetrain
