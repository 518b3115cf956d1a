#include "model/blocks/ring_attention.hpp"

#include <cassert>
#include <utility>

#include "model/context/ring_exchange.hpp"

namespace pipetrain {
namespace {

// One of this rank's two chunks of a sample's queries (ContextPart), together with rows of keys that are here
// and that it attends to.
struct Meeting {
  std::int64_t sample;
  int queries;  // the half: 0 or 1
  std::int64_t first_row, rows;
  std::int64_t position = 0;  // the position in the sequence of the first row's key, if the rows are contiguous there
  bool first = false;         // true when these queries meet keys for the first time
};

// One pass of keys and values around the ring.
class RingPass {
 public:
  RingPass(const BlockContext& context, const SegmentShape& shape, const Dropout& dropout)
      : context_(context),
        shape_(shape),
        documents_(context.documents),
        dropout_(dropout),
        part_(context.cp.part),
        chunk_(shape.queries / 2),
        earlier_(context.part().first / part_.size) {
    assert(shape.queries % 2 == 0 && earlier_ % shape.queries == 0);
  }

  int steps() const { return part_.size; }
  std::int64_t chunk() const { return chunk_; }
  std::int64_t heads() const { return shape_.heads; }
  std::int64_t query_cols() const { return shape_.query_cols(); }
  std::int64_t output_cols() const { return shape_.output_cols(); }
  std::int64_t key_value_cols() const { return shape_.key_value_cols(); }
  bool in_fp32() const { return context_.dtype == DType::f32; }

  // Allocates the memory that goes round: of each sequence the rank's tokens of earlier slices, then those of
  // this one. Every slice uses the memory of the last one, which needs the most.
  Tensor key_values(DType dtype) const {
    const std::int64_t most = context_.slice == nullptr ? shape_.tokens() : context_.slice->key_gradients.rows();
    return context_.workspace.allocate({most, key_value_cols()}, dtype).row_range(0, shape_.batch * key_rows());
  }

  // Rows of a matrix that has a row for each of the rank's tokens of this slice, and of a matrix that goes round.
  Tensor queries(const Tensor& matrix, const Meeting& of) const {
    return rows_of(matrix, shape_.batch, of.sample, of.queries * chunk_, chunk_);
  }
  Tensor keys(const Tensor& matrix, const Meeting& of) const {
    return rows_of(matrix, shape_.batch, of.sample, of.first_row, of.rows);
  }
  Tensor sums(const Tensor& log_sum_exp, const Meeting& of) const {
    const std::int64_t heads = shape_.heads, begin = (2 * of.sample + of.queries) * heads;
    return log_sum_exp.reshaped({2 * shape_.batch * heads, chunk_})
        .row_range(begin, begin + heads)
        .reshaped({1, heads, chunk_});
  }

  // Each of these returns the part of a tensor that the attention of these queries reads.
  std::optional<Tensor> documents(const Meeting& of) const {
    return documents_ ? std::optional(queries(*documents_, of)) : std::nullopt;
  }
  Dropout dropout(const Meeting& of) const {
    Dropout drawn = dropout_;
    drawn.first_sample += static_cast<std::uint32_t>(of.sample);
    return drawn;
  }

  // If nothing needs positions in the sequence, they count from the first of these keys: the rank's own keys
  // keep their order, and the queries come after all keys of another rank.
  SegmentShape segment(int step, const Meeting& of) const {
    SegmentShape shape{.queries = chunk_,
                       .keys = of.rows,
                       .first_query = step == 0 ? earlier_ + of.queries * chunk_ : of.rows,
                       .heads = shape_.heads,
                       .kv_heads = shape_.kv_heads,
                       .head_dim = shape_.head_dim,
                       .own_value_dim = shape_.own_value_dim,
                       .window = shape_.window,
                       .sinks = shape_.sinks,
                       .block = shape_.block,
                       .period = shape_.period,
                       .stripe = shape_.stripe,
                       .scale = shape_.scale};
    if (!by_position()) return shape;
    shape.first_query = first_position() + part_.chunk(of.queries) * chunk_;
    shape.first_key = of.position;
    return shape;
  }

  // Calls `use` with each meeting of this step.
  template <class Use>
  void for_meetings(int step, Use use) const {
    for (std::int64_t sample = 0; sample < shape_.batch; ++sample) {
      for (int half = 0; half < 2; ++half) {
        Meeting meeting{.sample = sample, .queries = half, .first_row = 0, .rows = earlier_ + seen(step, half) * chunk_};
        meeting.first = step == 0;
        if (by_position())
          meet_by_position(step, meeting, use);
        else if (meeting.rows > 0)
          use(meeting);
      }
    }
  }

  // --- These do nothing while memory is only measured ---
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
  bool by_position() const { return documents_ || dropout_.active() || shape_.window > 0 || shape_.is_sparse(); }
  // The rank whose keys and values are here.
  int owner(int step) const { return (part_.rank - step + part_.size) % part_.size; }
  std::int64_t key_rows() const { return earlier_ + shape_.queries; }    // rows of each sequence
  std::int64_t first_position() const { return earlier_ * part_.size; }  // the slice's first position
  // Returns how many chunks of this slice at this step's owner a half of the queries attends to. Every query
  // attends to the first chunk of a member before this one; of a member after it, the second half attends to
  // both chunks, as it does to its own rank's.
  int seen(int step, int half) const {
    if (half == 0) return owner(step) <= part_.rank ? 1 : 0;
    return owner(step) < part_.rank ? 1 : 2;
  }
  // Goes chunk by chunk, since there are gaps between them. Each query first meets the chunk that it belongs to itself.
  template <class Use>
  void meet_by_position(int step, Meeting meeting, Use use) const {
    const ContextPart from{owner(step), part_.size};
    meeting.rows = chunk_;
    const auto meet = [&](std::int64_t slice_row, int half) {
      meeting.first_row = slice_row + half * chunk_;
      meeting.position = slice_row * part_.size + from.chunk(half) * chunk_;
      use(meeting);
      meeting.first = false;
    };
    for (int half = seen(step, meeting.queries); half-- > 0;) meet(earlier_, half);
    for (std::int64_t row = 0; row < earlier_; row += shape_.queries)
      for (int half = 0; half < 2; ++half) meet(row, half);
  }

  const BlockContext& context_;
  SegmentShape shape_;               // of the rank's tokens
  std::optional<Tensor> documents_;  // of the rank's tokens
  Dropout dropout_;
  ContextPart part_;
  std::int64_t chunk_;    // tokens of one chunk
  std::int64_t earlier_;  // the rank's tokens of earlier slices of a sequence
};

struct Forward {
  Tensor q, out, log_sum_exp;
};

// here: this rank's keys and values, which are overwritten.
void attend(const BlockContext& context, const RingPass& pass, const Forward& of, Tensor here) {
  Ops& ops = context.ops;
  Tensor coming = pass.key_values(context.dtype);
  const Tensor out = pass.in_fp32() ? of.out : context.workspace.allocate(of.out.shape, DType::f32);
  const Tensor part = context.workspace.allocate({pass.chunk(), pass.output_cols()}, context.dtype);
  const Tensor part_sums = context.workspace.allocate({1, pass.heads(), pass.chunk()}, DType::f32);
  for (int step = 0; step < pass.steps(); ++step) {
    const bool last = step + 1 == pass.steps();
    if (!last) pass.start(here, coming);
    pass.for_meetings(step, [&](const Meeting& meeting) {
      const SegmentShape segment = pass.segment(step, meeting);
      const Tensor own = pass.queries(out, meeting), own_sums = pass.sums(of.log_sum_exp, meeting);
      const bool first = meeting.first, in_place = first && pass.in_fp32();
      ops.attention(segment, {.q = pass.queries(of.q, meeting),
                              .kv = pass.keys(here, meeting),
                              .out = in_place ? own : part,
                              .log_sum_exp = first ? own_sums : part_sums,
                              .documents = pass.documents(meeting),
                              .dropout = pass.dropout(meeting)});
      if (!first)
        ops.merge_attention(segment, {.part = part, .part_log_sum_exp = part_sums, .out = own, .log_sum_exp = own_sums});
      else if (!in_place)
        ops.copy_columns({.source = part, .target = own, .count = pass.output_cols()});
    });
    if (!last) pass.finish();
    std::swap(here, coming);
  }
  if (!pass.in_fp32()) ops.copy_columns({.source = out, .target = of.out, .count = pass.output_cols()});
}

struct Backward {
  Tensor dout, q, out, log_sum_exp;
  Tensor dq;  // [T, Hq D] or more columns
};
// The tensors that go round: this rank's keys and values, which are overwritten, and the sums so far of their gradients.
struct Travellers {
  Tensor key_values, gradients;
};

// Returns the gradients of this rank's keys and values, to which all members have added. A member computes its
// share while the sums of the members before it are still on their way.
Tensor attend_back(const BlockContext& context, const RingPass& pass, const Backward& of, const Travellers& own_keys) {
  Ops& ops = context.ops;
  Tensor here = own_keys.key_values, coming = pass.key_values(context.dtype);
  Tensor grads = own_keys.gradients, coming_grads = pass.key_values(DType::f32);
  const Tensor added = pass.key_values(DType::f32);
  const Tensor dq = pass.in_fp32() ? of.dq : context.workspace.allocate({of.q.rows(), pass.query_cols()}, DType::f32);
  for (int step = 0; step < pass.steps(); ++step) {
    const bool first = step == 0;
    if (step + 1 < pass.steps()) pass.start(here, coming);
    const Tensor& own = first ? grads : added;
    if (!first) pass.zero(own);
    pass.for_meetings(step, [&](const Meeting& meeting) {
      ops.attention_backward(pass.segment(step, meeting), {.dout = pass.queries(of.dout, meeting),
                                                           .q = pass.queries(of.q, meeting),
                                                           .kv = pass.keys(here, meeting),
                                                           .out = pass.queries(of.out, meeting),
                                                           .log_sum_exp = pass.sums(of.log_sum_exp, meeting),
                                                           .dq = pass.queries(dq, meeting),
                                                           .dkv = pass.keys(own, meeting),
                                                           .accumulate_dq = meeting.first ? Accumulate::no : Accumulate::yes,
                                                           .accumulate_dkv = Accumulate::yes,
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
  pass.finish();  // after this many steps they are back at their owner
  if (!pass.in_fp32()) ops.copy_columns({.source = dq, .target = of.dq, .count = pass.query_cols()});
  return coming_grads;
}

}  // namespace

void ring_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of) {
  const ArenaScope scope(context.workspace);
  const RingPass pass(context, shape, of.dropout);
  const Tensor here = pass.key_values(context.dtype);
  gather_keys(context.ops, shape.batch, of.keys, here);
  attend(context, pass, {of.keys.back(), of.out, of.log_sum_exp}, here);
}

void ring_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                             const SliceGradients& gradients) {
  const ArenaScope scope(context.workspace);
  const RingPass pass(context, shape, of.dropout);
  const Travellers own_keys{pass.key_values(context.dtype), pass.key_values(DType::f32)};
  gather_keys(context.ops, shape.batch, of.keys, own_keys.key_values);
  const SequenceBlock all{shape.batch, own_keys.gradients.rows() / shape.batch, pass.key_value_cols()};
  if (context.slice != nullptr)  // the sums of later slices
    copy_sequences(context.ops, all, {context.slice->key_gradients}, {own_keys.gradients});
  else
    pass.zero(own_keys.gradients);
  const Tensor sums =
      attend_back(context, pass, {gradients.out, of.keys.back(), of.out, of.log_sum_exp, gradients.qkv}, own_keys);
  if (context.slice != nullptr) copy_sequences(context.ops, all, {sums}, {context.slice->key_gradients});
  copy_sequences(context.ops, {shape.batch, shape.queries, all.cols}, {sums, all.rows - shape.queries},
                 {gradients.qkv, 0, pass.query_cols()});
}

}  // namespace pipetrain
