// The options of what is saved: checkpoints, and the type and the files of a model folder.
#pragma once

#include "actors/training/job/run_settings.hpp"
#include "apps/options/option_values.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Reads --save and the options that need it. Throws Error(input).
void read_saving(const OptionValues& values, SavingSettings& saving);
// --save-dtype and --save-shard-size. Throws Error(input).
ModelFolderOptions read_model_folder_options(const OptionValues& values);

}  // namespace pipetrain
