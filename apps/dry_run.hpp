#pragma once

#include "actors/training/trainer.hpp"

namespace pipetrain {

// Prints the plan, each stage's blocks and the bytes on each device to stdout; allocates none of them. Throws Error.
void print_dry_run(const TrainJob& job);

}  // namespace pipetrain
