// What context parallelism does not go with, so far.
#pragma once

namespace pipetrain {

class Mesh;
struct TrainJob;

// Throws Error(input), with the setting that is wrong, for a job that shares sequences between ranks and cannot. ranks: where
// each runs, or would run where the job is only estimated.
void check_context_parallel(const TrainJob& job, const Mesh& ranks);

}  // namespace pipetrain
