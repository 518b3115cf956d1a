// The weights of a model whose adapters have been added to its matrices.
#pragma once

#include <memory>

#include "model/weights/weights.hpp"

namespace pipetrain {

// config: the model with adapters. base: the weights of the model without them; trained: its trained tensors. The source gives
// whole tensors of base_model(config) alone, computed in fp32: W + scale * B A.
std::unique_ptr<WeightSource> merged_weights(const ModelConfig& config, std::shared_ptr<const WeightSource> base,
                                             std::shared_ptr<const WeightSource> trained);

}  // namespace pipetrain
