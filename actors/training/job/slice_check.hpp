// What microbatches that pass in slices of their sequence go together with.
#pragma once

namespace pipetrain {

struct TrainJob;

// Throws Error(input) about slices for what is not built, and for a sequence of fewer tokens than slices.
void check_slices(const TrainJob& job);

}  // namespace pipetrain
