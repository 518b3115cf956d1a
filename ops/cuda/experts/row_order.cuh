// The order of rows by expert and then by token, found from words: each block has 32 tokens, and for every expert a word whose
// bits are the tokens of the block that have a row there. A row's place is the number of bits before its own. Only for .cu
// files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace pipetrain::cuda {

constexpr int block_tokens = 32;
constexpr int most_experts = 1024;   // so that each lane of a warp marks its experts in one word
constexpr int order_threads = 1024;  // of a block

// For one block, in shared memory.
struct RowOrder {
  const int* offsets;  // [E + 1]: the first row of each expert, then the number of rows
  const int* before;   // [E]: each expert's rows of earlier blocks

  // Returns the row of a token of the block, given the word of its expert.
  __device__ int row_of(int expert, unsigned word, int token) const {
    return offsets[expert] + before[expert] + __popc(word & ((1U << token) - 1));
  }
};

constexpr std::size_t row_order_bytes(std::int64_t experts) { return static_cast<std::size_t>(2 * experts + 1) * sizeof(int); }

// Turns totals into the sums of those before each, the last entry into the sum of all. For one warp.
__device__ inline void add_up(int* totals, int count, int lane) {
  int so_far = 0;
  for (int first = 0; first < count; first += 32) {
    const int own = first + lane < count ? totals[first + lane] : 0;
    int sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0U, sum, step);
      if (lane >= step) sum += other;
    }
    if (first + lane < count) totals[first + lane] = so_far + sum - own;
    so_far += __shfl_sync(~0U, sum, 31);
  }
  if (lane == 0) totals[count] = so_far;
}

// words: [blocks, E]. memory: of row_order_bytes(). All order_threads threads of every block must call it.
__device__ inline RowOrder find_row_order(const unsigned* words, int experts, int* memory) {
  int *const offsets = memory, *const before = memory + experts + 1;
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < experts; e += order_threads) offsets[e] = before[e] = 0;
  __syncthreads();
  const int groups = order_threads / experts, expert = thread % experts;
  int all = 0, earlier = 0;
  for (int other = thread / experts; other < static_cast<int>(gridDim.x) && thread < groups * experts; other += groups) {
    const int rows = __popc(words[static_cast<std::int64_t>(other) * experts + expert]);
    all += rows;
    if (other < static_cast<int>(blockIdx.x)) earlier += rows;
  }
  if (all > 0) atomicAdd(offsets + expert, all);
  if (earlier > 0) atomicAdd(before + expert, earlier);
  __syncthreads();
  if (thread < 32) add_up(offsets, experts, thread);
  __syncthreads();
  return {offsets, before};
}

}  // namespace pipetrain::cuda
