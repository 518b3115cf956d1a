// Refuses a job that cuts matrices which its optimizer steps whole.
#pragma once

namespace pipetrain {

class Optimizer;
struct TrainJob;

// Throws Error(input) that names what cuts them: tensor parallelism, replicas that divide states, blocks that are offloaded.
void check_granularity(const Optimizer& optimizer, const TrainJob& job);

}  // namespace pipetrain
