// What a run in fp8 needs of its model, layout and GPUs.
#pragma once

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Throws Error(input) that names the setting where a job asks for products in 8 bits that are not built, or that its GPUs lack;
// and where it names layers to keep in bf16 without such products. A job without either passes.
void check_fp8(const TrainJob& job);

}  // namespace pipetrain
