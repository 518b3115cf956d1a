// WeightMagnitude scales the rows of an adapted matrix: each is divided by its norm and multiplied by its magnitude (see
// Adapter::magnitudes). Because the product's columns belong to the matrix's rows, the product is scaled instead: y = z * g,
// with z the product of the inputs with W + scale B A, and g = magnitude / norm. Rows of modules without adapters have g = 1.
#pragma once

#include <optional>

#include "model/blocks/low_rank_adapter.hpp"

namespace pipetrain {

class WeightMagnitude {
 public:
  // Returns nothing if the model's adapters have no magnitudes.
  static std::optional<WeightMagnitude> of(const ModelConfig& config, TensorRole matrix);
  void bind(const BoundTensors& tensors) { magnitude_ = tensors.at(role_); }

  struct Saved {
    Tensor product;       // [R, N], z; the backward writes its gradient over it
    Tensor factors;       // [N] f32, g
    Tensor inverse_norm;  // [N] f32
    Tensor ones;          // [R] f32

    void relocate(const Relocation& moved) {
      for (Tensor* const view : {&product, &factors, &inverse_norm, &ones}) moved.move(*view);
    }
  };
  // Allocates all that is saved, before the forward; `kept` lasts until the weight gradients have been computed.
  void reserve(const BlockContext& context, const Shape& product, Arena& kept, Saved& saved) const;

  // The matrix that the adapters are added to, and the ranks that divide its inputs.
  struct Matrix {
    const LowRankAdapter& adapter;
    Tensor weight;  // [N, K]
    TensorParallel inputs = {};
  };
  // y [R, N] = saved.product * g
  void forward(const BlockContext& context, const Matrix& matrix, const Saved& saved, const Tensor& y) const;
  // Returns the gradient of the product, in its memory, and adds to that of the magnitudes.
  Tensor backward(const BlockContext& context, const LowRankAdapter& adapter, const Tensor& output_grad,
                  const Saved& saved) const;

 private:
  explicit WeightMagnitude(TensorRole role) : role_(role) {}

  void find_factors(const BlockContext& context, const Matrix& matrix, const Saved& saved) const;

  TensorRole role_;
  BoundTensor magnitude_;
};

}  // namespace pipetrain
