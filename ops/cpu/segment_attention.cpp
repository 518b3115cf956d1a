// One tile of work is one head (forward) or one key-value head with its group of query heads (backward).
#include <cmath>
#include <limits>

#include "ops/cpu/attention_head.hpp"
#include "ops/cpu/kernels.hpp"

namespace pipetrain::cpu {
namespace {

// AttentionShape of the queries: what tiles ask of it.
AttentionShape of_queries(const SegmentShape& shape) {
  return {shape.batch, shape.queries, shape.heads, shape.kv_heads, shape.head_dim};
}

Place query_head(const SegmentShape& shape, const Tensor& packed, std::int64_t batch, std::int64_t head) {
  return {packed, batch * shape.queries, head * shape.head_dim, shape.queries, shape.head_dim};
}

// `plane`: counted over key and value heads. Sequences may have more rows than are keys.
Place key_head(const SegmentShape& shape, const Tensor& kv, std::int64_t batch, std::int64_t plane) {
  const std::int64_t first_col = kv.cols() - 2 * shape.kv_heads * shape.head_dim;
  return {kv, batch * (kv.rows() / shape.batch), first_col + plane * shape.head_dim, shape.keys, shape.head_dim};
}

template <class Args>
Sight sight_of_segment(const SegmentShape& shape, const Args& args, std::int64_t batch) {
  return {{shape.queries, shape.keys, shape.first_query, shape.first_key},
          args.documents ? args.documents->template as<std::int32_t>() + batch * shape.queries : nullptr,
          args.dropout,
          batch};
}

// What two segments' sums of exponentials weigh in the sum of both.
struct Weights {
  float both, one, other;
};
Weights weights_of(float one, float other) {
  const float most = std::max(one, other);
  if (most == -std::numeric_limits<float>::infinity()) return {most, 0, 0};
  const float both = most + std::log(std::exp(one - most) + std::exp(other - most));
  return {both, std::exp(one - both), std::exp(other - both)};
}

}  // namespace

void segment_attention(CpuStream& stream, const SegmentShape& shape, const SegmentAttentionArgs& args) {
  const AttentionShape attention = of_queries(shape);
  stream.parallel_for(shape.batch * shape.heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.heads, head = tile % shape.heads, kv = head / (shape.heads / shape.kv_heads);
    const Sight sight = sight_of_segment(shape, args, batch);
    const WideHead q(query_head(shape, args.q, batch, head)), k(key_head(shape, args.kv, batch, kv)),
        v(key_head(shape, args.kv, batch, shape.kv_heads + kv)), out(query_head(shape, args.out, batch, head));
    forward_head({attention, sight, head}, {q.load(), k.load(), v.load()}, out,
                 args.log_sum_exp.as<float>() + tile * shape.queries);
    out.store();
  });
}

void segment_attention_backward(CpuStream& stream, const SegmentShape& shape, const SegmentAttentionBackwardArgs& args) {
  const AttentionShape attention = of_queries(shape);
  const std::int64_t group = shape.heads / shape.kv_heads;
  stream.parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.kv_heads, kv = tile % shape.kv_heads;
    const Sight sight = sight_of_segment(shape, args, batch);
    const WideHead k(key_head(shape, args.kv, batch, kv)), v(key_head(shape, args.kv, batch, shape.kv_heads + kv)),
        dk(key_head(shape, args.dkv, batch, kv)), dv(key_head(shape, args.dkv, batch, shape.kv_heads + kv));
    k.load(), v.load();
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      const float* log_sum_exp = args.log_sum_exp.as<float>() + (batch * shape.heads + head) * shape.queries;
      const WideHead q(query_head(shape, args.q, batch, head)), dq(query_head(shape, args.dq, batch, head)),
          dout(query_head(shape, args.dout, batch, head)), out(query_head(shape, args.out, batch, head));
      if (args.accumulate_dq == Accumulate::yes) dq.load();
      backward_head({attention, sight, head}, {q.load(), k, v}, {dout.load(), out.load(), log_sum_exp}, {dq, dk, dv},
                    args.accumulate_dq);
      dq.store();
    }
  });
}

void merge_attention(CpuStream& stream, const SegmentShape& shape, const MergeAttentionArgs& args) {
  stream.parallel_for(shape.batch * shape.heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.heads, head = tile % shape.heads;
    const WideHead part(query_head(shape, args.part, batch, head)), out(query_head(shape, args.out, batch, head));
    float* const sums = args.log_sum_exp.as<float>() + tile * shape.queries;
    const float* const part_sums = args.part_log_sum_exp.as<float>() + tile * shape.queries;
    const Head from = part.load(), to = out.load();
    for (std::int64_t query = 0; query < shape.queries; ++query) {
      const auto [both, weight, part_weight] = weights_of(sums[query], part_sums[query]);
      for (std::int64_t i = 0; i < shape.head_dim; ++i)
        to.row(query)[i] = weight * to.row(query)[i] + part_weight * from.row(query)[i];
      sums[query] = both;
    }
    out.store();
  });
}

}  // namespace pipetrain::cpu
