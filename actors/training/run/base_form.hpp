// Chooses the form in which a run keeps the frozen matrices of its model.
#pragma once

#include "actors/training/job/run_settings.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// Sets config.base_form by the settings, and by what the configuration says of the folder's matrices. The frozen parts must be
// set. Throws Error(input) where nothing that could be quantised is frozen, and where the folder has another form.
void set_base_form(const ModelSettings& model, DType compute, ModelConfig& config);

}  // namespace pipetrain
