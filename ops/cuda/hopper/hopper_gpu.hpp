// What the kernels for Hopper GPUs ask of a GPU.
#pragma once

namespace pipetrain::cuda {

// A GPU and what it computes on. Bits depend on them and the shape alone.
struct HopperGpu {
  bool available;  // compute capability 9.0
  int multiprocessors;
};
HopperGpu hopper_gpu(int device);

}  // namespace pipetrain::cuda
