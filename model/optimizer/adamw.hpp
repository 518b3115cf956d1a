// AdamW: Loshchilov and Hutter, Decoupled Weight Decay Regularization, arXiv 1711.05101.
#pragma once

#include <memory>

#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

std::unique_ptr<const Optimizer> make_adamw(const OptimizerSettings& settings);

}  // namespace pipetrain
