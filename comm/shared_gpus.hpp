// Lets processes of a run share a GPU where their ranks form a group, which is refused otherwise: the kernels of a
// group wait for each other, and those of two processes alternate on a GPU. CUDA does not guarantee progress then, but
// slices of milliseconds let tests pass on machines with one GPU.
#pragma once

namespace pipetrain {

// Call it before any group is made. Thread-safe.
void let_processes_share_gpus();
bool processes_may_share_gpus();

}  // namespace pipetrain
