// The properties of a GPU, and of the work, that the kernels for Hopper GPUs require.
#pragma once

#include <cstdint>

namespace pipetrain::cuda {

// A GPU and its capabilities. Bits depend on them and the shape alone.
struct HopperGpu {
  bool available;  // compute capability 9.0
  int multiprocessors;
};
HopperGpu hopper_gpu(int device);

// The kernels of attention's backward process keys, and blocks of queries, of this number. Heads of 256 leave registers for
// the gradients of 64 keys.
constexpr int hopper_attention_keys(std::int64_t head_dim) { return head_dim == 256 ? 64 : 128; }

}  // namespace pipetrain::cuda
