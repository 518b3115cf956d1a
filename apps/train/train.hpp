// The train command, from checked options to a finished run.
#pragma once

#include "apps/options/train_options.hpp"

namespace pipetrain {

// Returns the exit status. Throws Error.
int run_train(const TrainOptions& options);

}  // namespace pipetrain
