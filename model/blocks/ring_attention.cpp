#include "model/blocks/ring_attention.hpp"

#include <cassert>
#include <utility>

#include "model/ring_exchange.hpp"

namespace pipetrain {
namespace {

// One of this rank's two chunks of a sample's queries, and those chunks that it sees of the keys that are here: see
// ContextPart.
struct Meeting {
  std::int64_t sample;
  int queries;             // the half
  int first_key_half = 0;  // of `keys`, one behind the other
  int keys = 1;
  bool first = false;  // of these queries'
};

// A pass of keys and values around the ring.
class RingPass {
 public:
  template <class Args>
  RingPass(const BlockContext& context, const AttentionShape& shape, const Args& args)
      : context_(context),
        shape_(shape),
        documents_(args.documents),
        dropout_(args.dropout),
        part_(context.cp.part),
        chunk_(shape.sequence / 2) {
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
  Tensor queries(const Tensor& matrix, const Meeting& of) const { return rows(matrix, of.sample, of.queries, 1); }
  Tensor keys(const Tensor& matrix, const Meeting& of) const { return rows(matrix, of.sample, of.first_key_half, of.keys); }
  Tensor sums(const Tensor& log_sum_exp, const Meeting& of) const {
    const std::int64_t heads = shape_.heads, begin = (2 * of.sample + of.queries) * heads;
    return log_sum_exp.reshaped({2 * shape_.batch * heads, chunk_})
        .row_range(begin, begin + heads)
        .reshaped({1, heads, chunk_});
  }

  // Of these queries, as their attention takes them.
  std::optional<Tensor> documents(const Meeting& of) const {
    return documents_ ? std::optional(rows(*documents_, of.sample, of.queries, 1)) : std::nullopt;
  }
  Dropout dropout(const Meeting& of) const {
    Dropout drawn = dropout_;
    drawn.first_sample += static_cast<std::uint32_t>(of.sample);
    return drawn;
  }

  // Where nobody asks for places in the sequence, positions count from the first of these keys: the rank's own keep their
  // order, and queries stand behind all of another's.
  SegmentShape segment(int step, const Meeting& of) const {
    const std::int64_t keys = of.keys * chunk_;
    SegmentShape shape{.queries = chunk_,
                       .keys = keys,
                       .first_query = step == 0 ? of.queries * chunk_ : keys,
                       .heads = shape_.heads,
                       .kv_heads = shape_.kv_heads,
                       .head_dim = shape_.head_dim};
    if (!by_position()) return shape;
    shape.first_query = part_.chunk(of.queries) * chunk_;
    shape.first_key = ContextPart{owner(step), part_.size}.chunk(of.first_key_half) * chunk_;
    return shape;
  }

  // All of this step in which queries see keys. Of a member before this one all queries see the first chunk; of one behind it
  // the second chunk's see both, as they do of their own rank's. By position the two meet one after the other, as there is a
  // gap between them; first of all each query meets the chunk that it is in itself.
  template <class Use>
  void for_meetings(int step, Use use) const {
    const bool first = step == 0, before = owner(step) < part_.rank;
    for (std::int64_t sample = 0; sample < shape_.batch; ++sample) {
      if (owner(step) <= part_.rank) use(Meeting{.sample = sample, .queries = 0, .first = first});
      if (before || !by_position()) {
        use(Meeting{.sample = sample, .queries = 1, .keys = before ? 1 : 2, .first = first});
      } else {
        use(Meeting{.sample = sample, .queries = 1, .first_key_half = 1, .first = first});
        use(Meeting{.sample = sample, .queries = 1});
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
  bool by_position() const { return documents_ || dropout_.active(); }
  int owner(int step) const { return (part_.rank - step + part_.size) % part_.size; }  // whose keys and values are here
  Tensor rows(const Tensor& matrix, std::int64_t sample, int half, int halves) const {
    const std::int64_t begin = sample * shape_.sequence + half * chunk_;
    return matrix.row_range(begin, begin + halves * chunk_);
  }

  const BlockContext& context_;
  AttentionShape shape_;
  std::optional<Tensor> documents_;  // of the rank's tokens
  Dropout dropout_;
  ContextPart part_;
  std::int64_t chunk_;  // tokens of one
};

}  // namespace

void ring_attention(const BlockContext& context, const AttentionShape& shape, const AttentionArgs& args) {
  const ArenaScope scope(context.workspace);
  const RingPass pass(context, shape, args);
  Ops& ops = context.ops;
  Tensor here = pass.key_values(context.dtype), coming = pass.key_values(context.dtype);
  const Tensor out = pass.in_fp32() ? args.out : context.workspace.allocate(args.out.shape, DType::f32);
  const Tensor part = context.workspace.allocate({pass.chunk(), pass.query_cols()}, context.dtype);
  const Tensor part_sums = context.workspace.allocate({1, shape.heads, pass.chunk()}, DType::f32);
  ops.copy_columns({.source = args.qkv, .source_begin = pass.query_cols(), .target = here, .count = pass.key_value_cols()});
  for (int step = 0; step < pass.steps(); ++step) {
    const bool last = step + 1 == pass.steps();
    if (!last) pass.start(here, coming);
    pass.for_meetings(step, [&](const Meeting& meeting) {
      const SegmentShape segment = pass.segment(step, meeting);
      const Tensor own = pass.queries(out, meeting), own_sums = pass.sums(args.log_sum_exp, meeting);
      const bool first = meeting.first, in_place = first && pass.in_fp32();
      ops.segment_attention(segment, {.q = pass.queries(args.qkv, meeting),
                                      .kv = pass.keys(here, meeting),
                                      .out = in_place ? own : part,
                                      .log_sum_exp = first ? own_sums : part_sums,
                                      .documents = pass.documents(meeting),
                                      .dropout = pass.dropout(meeting)});
      if (!first)
        ops.merge_attention(segment, {.part = part, .part_log_sum_exp = part_sums, .out = own, .log_sum_exp = own_sums});
      else if (!in_place)
        ops.copy_columns({.source = part, .target = own, .count = pass.query_cols()});
    });
    if (!last) pass.finish();
    std::swap(here, coming);
  }
  if (!pass.in_fp32()) ops.copy_columns({.source = out, .target = args.out, .count = pass.query_cols()});
}

// What a member adds to the gradients of the keys that it has comes to be while those of the members before it are on their
// way.
void ring_attention_backward(const BlockContext& context, const AttentionShape& shape, const AttentionBackwardArgs& args) {
  const ArenaScope scope(context.workspace);
  const RingPass pass(context, shape, args);
  Ops& ops = context.ops;
  Tensor here = pass.key_values(context.dtype), coming = pass.key_values(context.dtype);
  Tensor grads = pass.key_values(DType::f32), coming_grads = pass.key_values(DType::f32);
  const Tensor added = pass.key_values(DType::f32);
  const Tensor dq = pass.in_fp32() ? args.dqkv : context.workspace.allocate({shape.tokens(), pass.query_cols()}, DType::f32);
  ops.copy_columns({.source = args.qkv, .source_begin = pass.query_cols(), .target = here, .count = pass.key_value_cols()});
  for (int step = 0; step < pass.steps(); ++step) {
    const bool first = step == 0;
    if (step + 1 < pass.steps()) pass.start(here, coming);
    const Tensor& own = first ? grads : added;
    pass.zero(own);
    pass.for_meetings(step, [&](const Meeting& meeting) {
      ops.segment_attention_backward(pass.segment(step, meeting),
                                     {.dout = pass.queries(args.dout, meeting),
                                      .q = pass.queries(args.qkv, meeting),
                                      .kv = pass.keys(here, meeting),
                                      .out = pass.queries(args.out, meeting),
                                      .log_sum_exp = pass.sums(args.log_sum_exp, meeting),
                                      .dq = pass.queries(dq, meeting),
                                      .dkv = pass.keys(own, meeting),
                                      .accumulate_dq = meeting.first ? Accumulate::no : Accumulate::yes,
                                      .documents = pass.documents(meeting),
                                      .dropout = pass.dropout(meeting)});
    });
    pass.finish();
    std::swap(here, coming);
    if (!first) {
      std::swap(grads, coming_grads);
      ops.add(grads, added);
    }
    pass.start(grads, coming_grads);
  }
  pass.finish();  // after so many steps they are home
  if (!pass.in_fp32()) ops.copy_columns({.source = dq, .target = args.dqkv, .count = pass.query_cols()});
  ops.copy_columns(
      {.source = coming_grads, .target = args.dqkv, .target_begin = pass.query_cols(), .count = pass.key_value_cols()});
}

}  // namespace pipetrain
