#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/attention_head.hpp"
#include "ops/cpu/kernels.hpp"

namespace pipetrain::cpu {
namespace {

// The total of two segments' sums of exponentials, and the share of each in it.
struct SegmentWeights {
  float both, one, other;
};
SegmentWeights segment_weights(float one, float other) {
  const float most = std::max(one, other);
  if (most == -std::numeric_limits<float>::infinity()) return {most, 0, 0};
  const float both = most + std::log(std::exp(one - most) + std::exp(other - most));
  return {both, std::exp(one - both), std::exp(other - both)};
}

}  // namespace

void merge_attention(CpuStream& stream, const SegmentShape& shape, const MergeAttentionArgs& args) {
  stream.parallel_for(shape.batch * shape.heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.heads, head = tile % shape.heads;
    const WideHead part(output_head(shape, args.part, batch, head)), out(output_head(shape, args.out, batch, head));
    float* const sums = args.log_sum_exp.as<float>() + tile * shape.queries;
    const float* const part_sums = args.part_log_sum_exp.as<float>() + tile * shape.queries;
    const Head from = part.load(), to = out.load();
    for (std::int64_t query = 0; query < shape.queries; ++query) {
      const auto [both, weight, part_weight] = segment_weights(sums[query], part_sums[query]);
      for (std::int64_t i = 0; i < shape.value_dim(); ++i)
        to.row(query)[i] = weight * to.row(query)[i] + part_weight * from.row(query)[i];
      sums[query] = both;
    }
    out.store();
  });
}

}  // namespace pipetrain::cpu
