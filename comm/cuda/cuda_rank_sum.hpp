// Combines the pieces of several ranks in rank order, as the kernels of cuda_group do: the same bits. CUDA builds only.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cuda/cuda_stream.hpp"
#include "core/dtype.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// More take several kernels, and then `out` must be none of the pieces.
constexpr int max_ranks_at_once = 8;

struct RankSum {
  std::vector<const void*> pieces;  // by rank, `count` numbers each, of this GPU's memory
  void* out = nullptr;              // may be one of them, up to max_ranks_at_once
  std::int64_t count = 0;
  DType dtype = DType::f32, out_dtype = DType::f32;  // f32, f64, bf16, f16; the latter two also into f32
  Reduction reduction = Reduction::sum;
  int most_blocks = 16;  // multiprocessors that it takes at most
};

// Enqueues it. Sums run in fp32 (fp64 for f64). Throws Error(internal) for types or numbers of ranks that it does not take.
void enqueue_rank_sum(CudaStream& stream, const RankSum& sum);

}  // namespace pipetrain
