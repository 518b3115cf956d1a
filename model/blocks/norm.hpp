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
  };

  explicit Norm(const ModelConfig& config) : kind_(config.norm), eps_(static_cast<float>(config.norm_eps)) {}
  void bind(const BoundTensors& tensors);

  std::int64_t hidden() const { return weight_.weight.elements(); }
  Statistics allocate_statistics(std::int64_t rows, Arena& memory) const;
  // y [Tr, H]; writes the statistics.
  void forward(Ops& ops, const Tensor& x, const Tensor& y, const Statistics& statistics) const;
  // As Ops::rms_norm_backward; adds to the weights' gradients.
  void backward(Ops& ops, const Tensor& dy, const Tensor& x, const Statistics& statistics,
                const std::optional<Tensor>& residual, const Tensor& dx) const;

 private:
  NormKind kind_;
  float eps_;
  BoundTensor weight_, bias_;
};

}  // namespace pipetrain
