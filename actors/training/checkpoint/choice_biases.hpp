// The biases by which routers choose experts, in the folder of a model that has a place for them (RouterScores::corrected).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

// Returns a function that fills as `fill` does (save_hf_model), and then adds the biases that a run has learned to the
// model's own ones. biases: by routed layer and expert; empty: the run has learned none. A model without biases stays as it
// is.
std::function<void(std::size_t, float*)> with_choice_biases(const ModelConfig& config,
                                                            const std::vector<std::vector<float>>& biases,
                                                            std::function<void(std::size_t, float*)> fill);

}  // namespace pipetrain
