// The kernels for Hopper GPUs ask for these properties of a GPU, and of the work.
#pragma once

namespace pipetrain::cuda {

// A GPU and what it computes on. Bits depend on them and the shape alone.
struct HopperGpu {
  bool available;  // compute capability 9.0
  int multiprocessors;
};
HopperGpu hopper_gpu(int device);

// The kernels of attention's backward take queries and keys in blocks of so many.
constexpr int hopper_attention_block = 128;

}  // namespace pipetrain::cuda
