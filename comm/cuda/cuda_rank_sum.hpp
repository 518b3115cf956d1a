// Adds the pieces of several ranks in rank order with the bits of cuda_group's kernels. CUDA builds only.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cuda/cuda_stream.hpp"
#include "core/dtype.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// More ranks take several kernels; `out` must then be none of the pieces.
constexpr int max_ranks_at_once = 8;

struct RankSum {
  std::vector<const void*> pieces;  // by rank, `count` numbers each, in this GPU's memory
  void* out = nullptr;              // may be one of them, up to max_ranks_at_once
  std::int64_t count = 0;
  DType dtype = DType::f32, out_dtype = DType::f32;  // f32, f64, bf16, f16; the latter two also into f32
  Reduction reduction = Reduction::sum;
  int most_blocks = 16;  // the most multiprocessors that it takes
};

// Enqueues the sum, in fp32 (fp64 for f64). Throws Error(internal) for unsupported types or numbers of ranks.
void enqueue_rank_sum(CudaStream& stream, const RankSum& sum);

}  // namespace pipetrain
