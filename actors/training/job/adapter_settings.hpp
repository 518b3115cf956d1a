// Gives a model the adapters that the settings of a run describe.
#pragma once

#include "actors/training/job/run_settings.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// Changes nothing where no adapters are wanted. Throws Error(input) naming the setting, and what reading a folder throws.
void set_adapter(const AdapterSettings& settings, ModelConfig& config);

}  // namespace pipetrain
