// The properties of a GPU, and of the work, that the kernels for Hopper GPUs require.
#pragma once

#include <cstdint>

namespace pipetrain::cuda {

// A GPU and its capabilities. The bits of a result depend on these and on the shape alone.
struct HopperGpu {
  bool available;  // compute capability 9.0
  int multiprocessors;
};
HopperGpu hopper_gpu(int device);

// The kernels of attention's backward process blocks of this many keys, and tiles of this many queries. Heads of 256 leave
// registers for the gradients of 64 keys.
constexpr int hopper_attention_keys(std::int64_t head_dim) { return head_dim == 256 ? 64 : 128; }
constexpr int hopper_attention_queries(std::int64_t head_dim) { return head_dim == 64 ? 128 : 64; }
// Returns the columns of the values of heads with this many columns of queries and keys: those of latent attention have fewer.
constexpr std::int64_t hopper_attention_values(std::int64_t head_dim) { return head_dim == 192 ? 128 : head_dim; }
// Returns the columns that a head takes in shared memory, where they come in boxes of 64.
constexpr int hopper_attention_columns(std::int64_t head_dim) { return static_cast<int>((head_dim + 63) / 64 * 64); }

}  // namespace pipetrain::cuda
