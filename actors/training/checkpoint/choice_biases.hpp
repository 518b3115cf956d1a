// The biases by which routers choose experts, in the folder of a model that has a place for them (RouterScores::corrected).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

// Returns a function that fills as `fill` does (save_hf_model), and adds to the model's own biases those that a run has moved
// beside them. biases: by routed layer and expert; empty: a run has moved none. A model without a place for them stays as it
// is.
std::function<void(std::size_t, float*)> with_choice_biases(const ModelConfig& config,
                                                            const std::vector<std::vector<float>>& biases,
                                                            std::function<void(std::size_t, float*)> fill);

}  // namespace pipetrain
