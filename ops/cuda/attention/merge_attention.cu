// Merges the attention outputs that two ranges of keys gave for the same queries, weighted by their sums of exponentials.
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

struct Queries {
  int count, heads, dim;
};

// One warp handles a query and head. T: the part's type.
template <class T>
__global__ void merge_kernel(Queries s, std::int64_t rows, const T* part, const float* part_log_sum_exp, float* out,
                             float* log_sum_exp) {
  wait_for_previous();
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  const std::int64_t token = row / s.heads, head = row % s.heads;
  const std::int64_t statistic = (token / s.count * s.heads + head) * s.count + token % s.count;
  const float own = log_sum_exp[statistic], other = part_log_sum_exp[statistic], most = fmaxf(own, other);
  const bool sees_nothing = most == -INFINITY;
  const float both = sees_nothing ? most : most + logf(expf(own - most) + expf(other - most));
  const float own_weight = sees_nothing ? 0.0F : expf(own - both), other_weight = sees_nothing ? 0.0F : expf(other - both);
  for (int d = threadIdx.x % 32; d < s.dim; d += 32) {
    float& to = out[row * s.dim + d];
    to = own_weight * to + other_weight * to_float(part[row * s.dim + d]);
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) log_sum_exp[statistic] = both;
}

}  // namespace

void merge_attention(cudaStream_t stream, const SegmentShape& shape, const MergeAttentionArgs& args) {
  const std::int64_t rows = shape.tokens() * shape.heads;
  if (rows == 0) return;
  const Queries of{static_cast<int>(shape.queries), static_cast<int>(shape.heads), static_cast<int>(shape.value_dim())};
  with_type(args.part.dtype, "merge_attention", [&](auto t) {
    using T = typename decltype(t)::type;
    launch(stream, merge_kernel<T>, blocks_for(rows, 8), 256, 0, of, rows, data_of<T>(args.part),
           data_of<float>(args.part_log_sum_exp), data_of<float>(args.out), data_of<float>(args.log_sum_exp));
  });
}

}  // namespace pipetrain::cuda
