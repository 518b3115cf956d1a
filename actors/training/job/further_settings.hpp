// Gives a model the further prediction that the settings of a run ask for.
#pragma once

#include <string>

#include "model/config/config.hpp"

namespace pipetrain {

// model: as the run names it. weight: of the further prediction's loss; 0 changes nothing. Throws Error(input) naming the
// setting where the model has no layer for it, or where it is not built.
void set_further_prediction(const std::string& model, double weight, ModelConfig& config);

}  // namespace pipetrain
