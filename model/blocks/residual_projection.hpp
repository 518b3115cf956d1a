// A row-parallel matrix whose output, after dropout, a norm or a scale, is added to the residual stream. Attention and MLP end
// with one.
#pragma once

#include <optional>
#include <utility>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"
#include "model/blocks/low_rank_adapter.hpp"
#include "model/blocks/weight_magnitude.hpp"

namespace pipetrain {

class ResidualProjection {
 public:
  // With config.output_norms the product is normed before it is added, with config.residual_scale it is scaled; then nothing is
  // dropped. A model has one of the two at most.
  ResidualProjection(const ModelConfig& config, const MatrixRoles& roles, const DropoutSite& dropout,
                     std::optional<LowRankAdapter> adapter = {})
      : roles_(roles),
        adapter_(std::move(adapter)),
        dropout_(dropout),
        has_norm_(config.output_norms),
        eps_(static_cast<float>(config.norm_eps)),
        offset_(static_cast<float>(config.norm_offset)),
        scale_(static_cast<float>(config.residual_scale)) {
    if (adapter_) magnitude_ = WeightMagnitude::of(config, roles.weight);
  }
  void bind(const BoundTensors& tensors);

  bool in_fp8() const { return matrix_.in_fp8(); }
  bool is_trained_in_fp8() const { return matrix_.is_trained_in_fp8(); }
  // Returns true if the factors of the matrix have one scale a tensor, which the kernel that computes them can measure.
  bool takes_scale() const { return in_fp8() && matrix_.fp8.scales == Fp8Scales::tensor; }

  struct Saved {
    Fp8Matrix input = {};  // of a matrix that is trained in 8 bits: its cols, if they are kept
    // With a norm: [Tr, H], the product, and [Tr] f32. Every mode of recomputation keeps them.
    Tensor product, inv_rms;
    // Every mode of recomputation keeps them.
    LowRankAdapter::Saved adapter;
    WeightMagnitude::Saved magnitude;

    void relocate(const Relocation& moved) {
      moved.move(input);
      moved.move(product);
      moved.move(inv_rms);
      adapter.relocate(moved);
      magnitude.relocate(moved);
    }
  };

  struct ForwardArgs {
    Tensor input;           // [T, K]
    Tensor residual;        // [Tr, H]
    Tensor output;          // [Tr, H], output: residual + scale * dropout(input x matrix (+ bias))
    Arena* kept = nullptr;  // trained in 8 bits: arena of the input's cols; null: the backward computes them again
    // [2] f32 if takes_scale(): ends with input's largest magnitude; kept as long as the cols.
    std::optional<Tensor> scale = {};
    Arena* results = nullptr;  // with a norm or an adapter: arena of what the backward reads
  };
  void forward(const BlockContext& context, const ForwardArgs& args, Saved& saved) const;

  struct BackwardArgs {
    Tensor output_grad;  // [Tr, H], the residual's gradient too
    Tensor input;        // [T, K], the forward's; trained in 8 bits only if its cols were not kept
    Tensor input_grad;   // [T, K], output
  };
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, const Saved& saved) const;
  // Returns the bias's gradient if it is the sum of output_grad's columns. The block's norm then adds it, since
  // it reads output_grad as the residual's gradient anyway.
  std::optional<Tensor> residual_sums(const BlockContext& context) const;

 private:
  void multiply(const BlockContext& context, const ForwardArgs& args, const std::optional<Tensor>& residual,
                Saved& saved) const;
  struct ProductArgs {
    Tensor input;                         // [T, K]
    std::optional<Tensor> residual = {};  // [Tr, H]
    Tensor output;                        // [Tr, H], output
    std::optional<Tensor> bias = {};
    Arena* kept = nullptr;             // as in ForwardArgs
    std::optional<Tensor> scale = {};  // as in ForwardArgs
  };
  // output = the product of the matrix, plus the bias and the residual.
  void multiply_matrix(const BlockContext& context, const ProductArgs& args, Saved& saved) const;
  // output = the product of the matrix and of the adapter, plus the bias and the residual.
  void multiply_adapted(const BlockContext& context, const ProductArgs& args, Saved& saved) const;
  // The backward of a frozen matrix in 8 bits, or of one with an adapter where nothing is gathered; args.output_grad: [T, H],
  // of all ranks' rows; own_grad: [Tr, H].
  void frozen_backward(const BlockContext& context, const BackwardArgs& args, const Tensor& own_grad,
                       WeightGradients& gradients, const Saved& saved) const;
  // output = (the matrix's and the adapter's product) * g + bias + residual
  void multiply_scaled(const BlockContext& context, const ForwardArgs& args, const std::optional<Tensor>& residual,
                       Saved& saved) const;
  void backward_in_fp8(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                       const Saved& saved) const;
  // True when the product changes before it is added to the residual stream.
  bool changes_product(const BlockContext& context) const { return has_norm_ || scale_ != 1 || dropout_.active(context); }
  // Returns the gradient of the product, [Tr, H], at this rank's rows of `gathered`.
  Tensor product_grad(const BlockContext& context, const Tensor& output_grad, const Tensor& gathered, const Saved& saved) const;

  MatrixRoles roles_;
  std::optional<LowRankAdapter> adapter_;
  std::optional<WeightMagnitude> magnitude_;
  DropoutSite dropout_;
  bool has_norm_;
  float eps_, offset_, scale_;
  BoundTensor matrix_, bias_, norm_weight_;
};

}  // namespace pipetrain
