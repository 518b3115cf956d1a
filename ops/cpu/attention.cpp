// A tile of work is one head (forward) or one key-value head with its group of query heads (backward).
#include <algorithm>

#include "ops/cpu/attention_head.hpp"
#include "ops/cpu/kernels.hpp"

namespace pipetrain::cpu {
namespace {

// A key head and its value head in kv or dkv, which may have more rows for a sequence than it has keys.
struct KeyValueHead {
  HeadLocation key, value;
};
KeyValueHead key_value_head(const SegmentShape& shape, const Tensor& kv, std::int64_t batch, std::int64_t head) {
  const std::int64_t first_row = batch * (kv.rows() / shape.batch), first_col = kv.cols() - shape.key_value_cols();
  const std::int64_t first_value = first_col + shape.kv_heads * shape.head_dim, value_dim = shape.value_dim();
  return {{kv, first_row, first_col + head * shape.head_dim, shape.keys, shape.head_dim},
          {kv, first_row, first_value + head * value_dim, shape.keys, value_dim}};
}

template <class Args>
Sight sight_of(const SegmentShape& shape, const Args& args, std::int64_t batch) {
  return {shape, args.documents ? args.documents->template as<std::int32_t>() + batch * shape.queries : nullptr, args.dropout,
          batch};
}

// Loads a gradient that will be added to, and clears one that will be overwritten.
void begin_gradient(const WideHead& gradient, const HeadLocation& location, Accumulate accumulate) {
  if (accumulate == Accumulate::yes) {
    gradient.load();
    return;
  }
  const Head rows = gradient;
  for (std::int64_t row = 0; row < location.rows; ++row) std::fill_n(rows.row(row), location.dim, 0.0F);
}

}  // namespace

void attention(CpuStream& stream, const SegmentShape& shape, const AttentionArgs& args) {
  float* const log_sum_exp = args.log_sum_exp.as<float>();
  stream.parallel_for(shape.batch * shape.heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.heads, head = tile % shape.heads;
    const Sight sight = sight_of(shape, args, batch);
    const auto [key, value] = key_value_head(shape, args.kv, batch, head / (shape.heads / shape.kv_heads));
    const WideHead q(query_head(shape, args.q, batch, head)), k(key), v(value), out(output_head(shape, args.out, batch, head));
    forward_head({sight, head}, {q.load(), k.load(), v.load()}, out,
                 log_sum_exp == nullptr ? nullptr : log_sum_exp + tile * shape.queries);
    out.store();
  });
}

void attention_backward(CpuStream& stream, const SegmentShape& shape, const AttentionBackwardArgs& args) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  stream.parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.kv_heads, kv = tile % shape.kv_heads;
    const Sight sight = sight_of(shape, args, batch);
    const auto [key, value] = key_value_head(shape, args.kv, batch, kv);
    const auto [key_grad, value_grad] = key_value_head(shape, args.dkv, batch, kv);
    const WideHead k(key), v(value), dk(key_grad), dv(value_grad);
    k.load(), v.load();
    begin_gradient(dk, key_grad, args.accumulate_dkv), begin_gradient(dv, value_grad, args.accumulate_dkv);
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      const float* log_sum_exp = args.log_sum_exp.as<float>() + (batch * shape.heads + head) * shape.queries;
      const WideHead q(query_head(shape, args.q, batch, head)), dq(query_head(shape, args.dq, batch, head)),
          dout(output_head(shape, args.dout, batch, head)), out(output_head(shape, args.out, batch, head));
      if (args.accumulate_dq == Accumulate::yes) dq.load();
      backward_head({sight, head}, {q.load(), k, v}, {dout.load(), out.load(), log_sum_exp}, {dq, dk, dv}, args.accumulate_dq);
      dq.store();
    }
    dk.store(), dv.store();
  });
}

void cached_attention(CpuStream& stream, const SegmentShape& shape, const CachedAttentionArgs& args) {
  const std::int64_t row = shape.key_value_cols();
  for (std::int64_t t = 0; t < shape.queries; ++t) {
    const char* const fresh = element_at(args.qkv, t * shape.packed_cols() + shape.query_cols());
    std::copy_n(fresh, static_cast<std::size_t>(row) * size_of(args.qkv.dtype),
                element_at(args.cache, (shape.first_query + t) * row));
  }
  attention(stream, shape, {.q = args.qkv, .kv = args.cache, .out = args.out, .log_sum_exp = args.log_sum_exp});
}

}  // namespace pipetrain::cpu
