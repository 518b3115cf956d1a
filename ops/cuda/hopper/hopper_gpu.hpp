// The properties of a GPU, and of the work, that the kernels for Hopper GPUs require.
#pragma once

namespace pipetrain::cuda {

// A GPU and its capabilities. Bits depend on them and the shape alone.
struct HopperGpu {
  bool available;  // compute capability 9.0
  int multiprocessors;
};
HopperGpu hopper_gpu(int device);

// The kernels of attention's backward process queries and keys in blocks of this size.
constexpr int hopper_attention_block = 128;

}  // namespace pipetrain::cuda
