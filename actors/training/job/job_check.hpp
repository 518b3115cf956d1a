// Refuses a job that its model, its data, its plan or its devices do not allow.
#pragma once

#include <vector>

#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

class Mesh;
struct TrainJob;

// Throws Error(input), with the setting where there is one, for features that do not work together, and for sizes that do not
// fit. parts: the blocks of each virtual stage. ranks: where each runs, or would run where the job is only estimated. Opens no
// device.
void check_job(const TrainJob& job, const schedules::Plan& plan, const std::vector<std::vector<Block>>& parts,
               const Mesh& ranks);

// The part of check_job() about products in 8 bits: sizes of matrices and microbatches that they can multiply, layers that are
// left to be in fp8, and GPUs that have such products. A job that names no layers to keep in bf16 passes without fp8.
void check_fp8_sizes(const TrainJob& job);

}  // namespace pipetrain
