// Whether processes of a run may share a GPU where their ranks form a group: else refused, because kernels of a group wait for
// each other, and those of two processes take turns on a GPU. CUDA promises nothing for that; in turns of milliseconds it goes
// on all the same, for tests on machines of one GPU.
#pragma once

namespace pipetrain {

// Before any group is made. Thread-safe.
void let_processes_share_gpus();
bool processes_may_share_gpus();

}  // namespace pipetrain
