// What context parallelism does not go with, so far.
#pragma once

namespace pipetrain {

struct TrainJob;

// Throws Error(input), with the setting that is wrong, for a job that shares sequences between ranks and cannot.
void check_context_parallel(const TrainJob& job);

}  // namespace pipetrain
