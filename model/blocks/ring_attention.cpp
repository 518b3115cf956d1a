#include "model/blocks/ring_attention.hpp"

#include <cassert>
#include <utility>

#include "model/ring_exchange.hpp"

namespace pipetrain {
namespace {

// A chunk of this rank's queries and one of the keys that it has: see ContextPart.
struct ChunkPair {
  std::int64_t sample;
  int queries, keys;  // the halves
  bool first;         // of what these queries attend to
};

// A pass of keys and values around the ring.
class RingPass {
 public:
  RingPass(const BlockContext& context, const AttentionShape& shape)
      : context_(context), shape_(shape), part_(context.cp.part), chunk_(shape.sequence / 2) {
    assert(shape.sequence % 2 == 0);
  }

  int steps() const { return part_.size; }
  std::int64_t chunk() const { return chunk_; }
  std::int64_t query_cols() const { return shape_.heads * shape_.head_dim; }
  std::int64_t key_value_cols() const { return 2 * shape_.kv_heads * shape_.head_dim; }
  bool in_fp32() const { return context_.dtype == DType::f32; }

  // Memory that goes round, of the rank's number of tokens.
  Tensor key_values(DType dtype) const { return context_.workspace.allocate({shape_.tokens(), key_value_cols()}, dtype); }

  // Of a matrix with a row for each of a rank's tokens.
  Tensor rows(const Tensor& matrix, std::int64_t sample, int half) const {
    const std::int64_t begin = sample * shape_.sequence + half * chunk_;
    return matrix.row_range(begin, begin + chunk_);
  }
  Tensor sums(const Tensor& log_sum_exp, std::int64_t sample, int half) const {
    const std::int64_t heads = shape_.heads, begin = (2 * sample + half) * heads;
    return log_sum_exp.reshaped({2 * shape_.batch * heads, chunk_})
        .row_range(begin, begin + heads)
        .reshaped({1, heads, chunk_});
  }

  SegmentShape segment(int step, const ChunkPair& pair) const {
    return {.queries = chunk_,
            .keys = chunk_,
            .first_query = part_.chunk(pair.queries) * chunk_,
            .first_key = owner(step).chunk(pair.keys) * chunk_,
            .heads = shape_.heads,
            .kv_heads = shape_.kv_heads,
            .head_dim = shape_.head_dim};
  }

  // All pairs of this step in which queries see keys.
  template <class Use>
  void for_pairs(int step, Use use) const {
    for (std::int64_t sample = 0; sample < shape_.batch; ++sample) {
      for (const int queries : {0, 1}) {
        for (const int keys : {0, 1})
          if (owner(step).chunk(keys) <= part_.chunk(queries)) use({sample, queries, keys, step == 0 && keys == 0});
      }
    }
  }

  // --- Nothing where memory is only measured ---
  void start(const Tensor& source, const Tensor& target) const {
    if (ring() != nullptr) ring()->start(context_.ops.stream(), source, target);
  }
  void finish() const {
    if (ring() != nullptr) ring()->finish(context_.ops.stream());
  }
  void zero(const Tensor& tensor) const {
    if (ring() != nullptr) context_.ops.stream().zero(tensor);
  }

 private:
  RingExchange* ring() const { return context_.cp.ring; }
  // Whose keys and values are here.
  ContextPart owner(int step) const { return {(part_.rank - step + part_.size) % part_.size, part_.size}; }

  const BlockContext& context_;
  AttentionShape shape_;
  ContextPart part_;
  std::int64_t chunk_;  // tokens of one
};

}  // namespace

void ring_attention(const BlockContext& context, const AttentionShape& shape, const AttentionArgs& args) {
  assert(!args.dropout.active() && !args.documents);
  const ArenaScope scope(context.workspace);
  const RingPass pass(context, shape);
  Ops& ops = context.ops;
  Tensor here = pass.key_values(context.dtype), coming = pass.key_values(context.dtype);
  const Tensor out = pass.in_fp32() ? args.out : context.workspace.allocate(args.out.shape, DType::f32);
  const Tensor part = context.workspace.allocate({pass.chunk(), pass.query_cols()}, DType::f32);
  const Tensor part_sums = context.workspace.allocate({1, shape.heads, pass.chunk()}, DType::f32);
  ops.copy_columns({.source = args.qkv, .source_begin = pass.query_cols(), .target = here, .count = pass.key_value_cols()});
  for (int step = 0; step < pass.steps(); ++step) {
    const bool last = step + 1 == pass.steps();
    if (!last) pass.start(here, coming);
    pass.for_pairs(step, [&](const ChunkPair& pair) {
      const SegmentShape segment = pass.segment(step, pair);
      const Tensor own = pass.rows(out, pair.sample, pair.queries),
                   own_sums = pass.sums(args.log_sum_exp, pair.sample, pair.queries);
      ops.segment_attention(segment, {.q = pass.rows(args.qkv, pair.sample, pair.queries),
                                      .kv = pass.rows(here, pair.sample, pair.keys),
                                      .out = pair.first ? own : part,
                                      .log_sum_exp = pair.first ? own_sums : part_sums});
      if (!pair.first)
        ops.merge_attention(segment, {.part = part, .part_log_sum_exp = part_sums, .out = own, .log_sum_exp = own_sums});
    });
    if (!last) pass.finish();
    std::swap(here, coming);
  }
  if (!pass.in_fp32()) ops.copy_columns({.source = out, .target = args.out, .count = pass.query_cols()});
}

void ring_attention_backward(const BlockContext& context, const AttentionShape& shape, const AttentionBackwardArgs& args) {
  const ArenaScope scope(context.workspace);
  const RingPass pass(context, shape);
  Ops& ops = context.ops;
  Tensor here = pass.key_values(context.dtype), coming = pass.key_values(context.dtype);
  Tensor grads = pass.key_values(DType::f32), coming_grads = pass.key_values(DType::f32);
  const Tensor dq = pass.in_fp32() ? args.dqkv : context.workspace.allocate({shape.tokens(), pass.query_cols()}, DType::f32);
  ops.copy_columns({.source = args.qkv, .source_begin = pass.query_cols(), .target = here, .count = pass.key_value_cols()});
  pass.zero(grads);
  for (int step = 0; step < pass.steps(); ++step) {
    if (step + 1 < pass.steps()) pass.start(here, coming);
    pass.for_pairs(step, [&](const ChunkPair& pair) {
      const auto queries = [&](const Tensor& matrix) { return pass.rows(matrix, pair.sample, pair.queries); };
      ops.segment_attention_backward(pass.segment(step, pair),
                                     {.dout = queries(args.dout),
                                      .q = queries(args.qkv),
                                      .kv = pass.rows(here, pair.sample, pair.keys),
                                      .out = queries(args.out),
                                      .log_sum_exp = pass.sums(args.log_sum_exp, pair.sample, pair.queries),
                                      .dq = queries(dq),
                                      .dkv = pass.rows(grads, pair.sample, pair.keys),
                                      .accumulate_dq = pair.first ? Accumulate::no : Accumulate::yes});
    });
    pass.start(grads, coming_grads);  // after the last step they are home
    pass.finish();
    std::swap(here, coming);
    std::swap(grads, coming_grads);
  }
  if (!pass.in_fp32()) ops.copy_columns({.source = dq, .target = args.dqkv, .count = pass.query_cols()});
  ops.copy_columns({.source = grads, .target = args.dqkv, .target_begin = pass.query_cols(), .count = pass.key_value_cols()});
}

}  // namespace pipetrain
