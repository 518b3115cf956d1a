// Gives a model the patterns of attention that the settings of a run describe.
#pragma once

#include "actors/training/job/run_settings.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// Changes nothing where none are wanted. Throws Error(input) naming the setting.
void set_attention(const AttentionSettings& settings, ModelConfig& config);

}  // namespace pipetrain
