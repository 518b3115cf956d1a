// Token ids to the residual stream, with learned positions where the model has them. The vocabulary's rows are spread over the
// tensor-parallel group.
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"

namespace pipetrain {

class EmbeddingBlock final : public BlockCompute {
 public:
  EmbeddingBlock(const ModelConfig& config, const TensorParallel& tp);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;
  void cached_forward(const BlockContext& context, const CachedForwardArgs& args) const override;

 private:
  // Returns the rows of a table of positions, or of its gradient, that belong to the context's tokens, and all
  // rows after them.
  static Tensor positions_of(const BlockContext& context, const Tensor& table);

  VocabularyRows vocabulary_;                  // of this rank
  std::optional<std::int64_t> untrained_row_;  // among this rank's rows; empty if another rank has it
  bool learned_positions_;
  float scale_;  // of the table's rows
  DropoutSite dropout_;
  BoundTensor table_, positions_;
};

}  // namespace pipetrain
