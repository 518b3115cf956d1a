// The blocks of a generating stage for one of several models that share their base's weights: the base itself, or the base
// with one adapter.
#pragma once

#include <memory>
#include <vector>

#include "model/blocks/block_compute.hpp"
#include "model/config/config.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

class InferenceBlocks {
 public:
  // Throws Error(input) as layout_parameters() does.
  InferenceBlocks(const ModelConfig& config, const std::vector<Block>& blocks, const TensorParallel& tp);

  // Returns all parameters of the model.
  const ParameterLayout& parameters() const { return whole_; }
  // Returns those that an adapter adds or replaces, at the offsets of an arena of their own. It has no elements for the base.
  const ParameterLayout& adapter() const { return adapter_; }

  // Gives blocks the tensors of the adapter from `own`, the arena of adapter(), and all others from the arena of the base's
  // parameters(). Without memory the blocks can be measured only.
  void bind(const ParameterLayout& base, const Tensor& base_weights, const Tensor& own, DType gradient);
  const std::vector<std::unique_ptr<BlockCompute>>& blocks() const { return blocks_; }

 private:
  ParameterLayout whole_, adapter_;
  std::vector<std::unique_ptr<BlockCompute>> blocks_;
};

}  // namespace pipetrain
