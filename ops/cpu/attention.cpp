// One tile of work is one head (forward) or one key-value head with its group of query heads (backward).
#include <algorithm>

#include "ops/cpu/attention_head.hpp"
#include "ops/cpu/kernels.hpp"

namespace pipetrain::cpu {
namespace {

// `plane`: counted over query, key and value heads.
Place head_of(const AttentionShape& shape, const Tensor& packed, std::int64_t batch, std::int64_t plane) {
  return {packed, batch * shape.sequence, plane * shape.head_dim, shape.sequence, shape.head_dim};
}

struct Planes {
  std::int64_t q, k, v;
};
Planes planes_of(const AttentionShape& shape, std::int64_t head) {
  const std::int64_t kv = head / (shape.heads / shape.kv_heads);
  return {head, shape.heads + kv, shape.heads + shape.kv_heads + kv};
}

Sight sight_of_whole(const AttentionShape& shape, const std::optional<Tensor>& documents, const Dropout& dropout,
                     std::int64_t batch) {
  return {{.queries = shape.sequence, .keys = shape.sequence},
          documents ? documents->as<std::int32_t>() + batch * shape.sequence : nullptr,
          dropout,
          batch};
}

void clear_head(Head head, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = 0; row < rows; ++row) std::fill_n(head.row(row), cols, 0.0F);
}

}  // namespace

void attention(CpuStream& stream, const AttentionShape& shape, const AttentionArgs& args) {
  stream.parallel_for(shape.batch * shape.heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.heads, head = tile % shape.heads;
    const Sight sight = sight_of_whole(shape, args.documents, args.dropout, batch);
    const Planes planes = planes_of(shape, head);
    const WideHead q(head_of(shape, args.qkv, batch, planes.q)), k(head_of(shape, args.qkv, batch, planes.k)),
        v(head_of(shape, args.qkv, batch, planes.v)), out(head_of(shape, args.out, batch, head));
    forward_head({shape, sight, head}, {q.load(), k.load(), v.load()}, out,
                 args.log_sum_exp.as<float>() + tile * shape.sequence);
    out.store();
  });
}

void cached_attention(CpuStream& stream, const AttentionShape& shape, const CachedAttentionArgs& args) {
  const std::int64_t dim = shape.head_dim, row = 2 * shape.kv_heads * dim, group = shape.heads / shape.kv_heads;
  for (std::int64_t t = 0; t < shape.sequence; ++t) {
    const char* const fresh = element_at(args.qkv, t * shape.packed_cols() + shape.heads * dim);
    std::copy_n(fresh, static_cast<std::size_t>(row) * size_of(args.qkv.dtype), element_at(args.cache, (args.first + t) * row));
  }
  const Stretches stretches{.queries = shape.sequence, .keys = args.first + shape.sequence, .first_query = args.first};
  stream.parallel_for(shape.heads, [&](std::int64_t head) {
    const Sight sight(stretches, nullptr, {}, 0);
    const auto cached = [&](std::int64_t plane) { return Place{args.cache, 0, plane * dim, args.first + shape.sequence, dim}; };
    const WideHead q(head_of(shape, args.qkv, 0, head)), k(cached(head / group)), v(cached(shape.kv_heads + head / group)),
        out(head_of(shape, args.out, 0, head));
    forward_head({shape, sight, head}, {q.load(), k.load(), v.load()}, out, nullptr);
    out.store();
  });
}

void attention_backward(CpuStream& stream, const AttentionShape& shape, const AttentionBackwardArgs& args) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  stream.parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.kv_heads, first_head = tile % shape.kv_heads * group;
    const Sight sight = sight_of_whole(shape, args.documents, args.dropout, batch);
    const Planes planes = planes_of(shape, first_head);
    const WideHead k(head_of(shape, args.qkv, batch, planes.k)), v(head_of(shape, args.qkv, batch, planes.v)),
        dk(head_of(shape, args.dqkv, batch, planes.k)), dv(head_of(shape, args.dqkv, batch, planes.v));
    k.load(), v.load();
    clear_head(dk, shape.sequence, shape.head_dim);
    clear_head(dv, shape.sequence, shape.head_dim);
    for (std::int64_t head = first_head; head < first_head + group; ++head) {
      const float* log_sum_exp = args.log_sum_exp.as<float>() + (batch * shape.heads + head) * shape.sequence;
      const WideHead q(head_of(shape, args.qkv, batch, head)), dq(head_of(shape, args.dqkv, batch, head)),
          dout(head_of(shape, args.dout, batch, head)), out(head_of(shape, args.out, batch, head));
      backward_head({shape, sight, head}, {q.load(), k, v}, {dout.load(), out.load(), log_sum_exp}, {dq, dk, dv});
      dq.store();
    }
    dk.store(), dv.store();
  });
}

}  // namespace pipetrain::cpu
