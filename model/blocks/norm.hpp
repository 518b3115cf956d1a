// The norm in front of a matrix: RMSNorm, or LayerNorm with its bias, by the configuration.
#pragma once

#include <optional>

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class Norm {
 public:
  // Of each row, for the backward.
  struct Statistics {
    Tensor mean;       // [Tr] f32, of a LayerNorm
    Tensor inv_scale;  // [Tr] f32: 1 / the root of the mean square, or of the variance

    void relocate(const Relocation& moved) {
      moved.move(mean);
      moved.move(inv_scale);
    }
  };

  explicit Norm(const ModelConfig& config) : kind_(config.norm), eps_(static_cast<float>(config.norm_eps)) {}
  void bind(const BoundTensors& tensors);

  std::int64_t hidden() const { return weight_.weight.elements(); }
  Statistics allocate_statistics(std::int64_t rows, Arena& memory) const;
  struct ForwardArgs {
    Tensor x;                            // [Tr, H]
    Tensor y;                            // [Tr, H], written
    Statistics statistics;               // written
    std::optional<Tensor> largest = {};  // [1] f32, written: y's largest magnitude
  };
  void forward(Ops& ops, const ForwardArgs& args) const;

  struct BackwardArgs {
    Tensor dy;                                 // [Tr, H]
    Tensor x;                                  // [Tr, H], of the forward
    Statistics statistics;                     // of the forward
    std::optional<Tensor> residual = {};       // [Tr, H], added to dx before the one rounding
    Tensor dx;                                 // [Tr, H], written; may be x's memory
    std::optional<Tensor> residual_sums = {};  // [H] f32 += residual's columns' sums
  };
  // Adds to the weights' gradients, where they are trained.
  void backward(const BlockContext& context, const BackwardArgs& args) const;

 private:
  NormKind kind_;
  float eps_;
  BoundTensor weight_, bias_;
};

}  // namespace pipetrain
