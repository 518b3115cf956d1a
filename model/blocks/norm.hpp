// The norm in front of a matrix: RMSNorm, or LayerNorm with its bias, by the configuration.
#pragma once

#include <optional>

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class Norm {
 public:
  // The statistics of each row, which the backward reads.
  struct Statistics {
    Tensor mean;       // [Tr] f32, for a LayerNorm
    Tensor inv_scale;  // [Tr] f32: 1 / the root of the mean square, or of the variance

    void relocate(const Relocation& moved) {
      moved.move(mean);
      moved.move(inv_scale);
    }
  };

  explicit Norm(const ModelConfig& config)
      : kind_(config.norm), eps_(static_cast<float>(config.norm_eps)), offset_(static_cast<float>(config.norm_offset)) {}
  void bind(const BoundTensors& tensors);

  std::int64_t hidden() const { return weight_.weight.elements(); }
  Statistics allocate_statistics(std::int64_t rows, Arena& memory) const;
  struct ForwardArgs {
    Tensor x;                            // [Tr, H]
    Tensor y;                            // [Tr, H], output
    Statistics statistics;               // output
    std::optional<Tensor> largest = {};  // [1] f32, output: y's largest magnitude
  };
  void forward(Ops& ops, const ForwardArgs& args) const;

  struct BackwardArgs {
    Tensor dy;                                 // [Tr, H]
    Tensor x;                                  // [Tr, H], the forward's
    Statistics statistics;                     // the forward's
    std::optional<Tensor> residual = {};       // [Tr, H], added to dx before the one rounding
    Tensor dx;                                 // [Tr, H], output; may be x's memory
    std::optional<Tensor> residual_sums = {};  // [H] f32: the column sums of residual are added to it
  };
  // The norm's output is its input times a number for each row, times the sum of a number for each column and the offset.
  struct Factors {
    Tensor rows;     // [Tr] f32
    Tensor columns;  // [H]
    float offset = 0;
  };
  // Returns nothing for a LayerNorm, which also subtracts the mean.
  std::optional<Factors> factors(const Statistics& statistics) const {
    if (kind_ == NormKind::layer) return std::nullopt;
    return Factors{statistics.inv_scale, weight_.weight, offset_};
  }
  // Adds to the gradients of the weights that are trained.
  void backward(const BlockContext& context, const BackwardArgs& args) const;

 private:
  NormKind kind_;
  float eps_, offset_;
  BoundTensor weight_, bias_;
};

}  // namespace pipetrain
