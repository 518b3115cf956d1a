// Sinks and patterns of attention on GPUs against double precision, and the kernels that divide a shape between them against
// those that compute all of it.
#include <optional>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

SegmentShape with_sinks(SegmentShape shape, std::int64_t window, std::int64_t sinks) {
  shape.window = window, shape.sinks = sinks;
  return shape;
}
SegmentShape fixed_pattern(SegmentShape shape) {
  shape.window = shape.block = shape.period = 64, shape.stripe = 16;
  return shape;
}
SegmentShape longformer_pattern(SegmentShape shape) {
  shape.window = 32, shape.sinks = shape.block = 16;
  return shape;
}

struct SparseResult {
  Tensor out, log_sum_exp, dqkv;
};

// The attention of whole sequences on the GPU, with its own output and log-sum-exp in the backward.
class SparseAttention {
 public:
  SparseAttention(Bench& b, const SegmentShape& shape, Ops& ops)
      : qkv(b.draw({shape.tokens(), shape.packed_cols()})),
        dout(b.draw({shape.tokens(), shape.query_cols()})),
        b_(b),
        shape_(shape),
        ops_(ops),
        packed_(b.put(qkv)),
        gradient_(b.put(dout)) {}

  SparseResult run(const std::optional<Tensor>& documents = {}, const std::optional<Tensor>& cos_sin = {}) {
    const SparseResult result{b_.poisoned({shape_.tokens(), shape_.query_cols()}),
                              b_.rank.poisoned({shape_.batch, shape_.heads, shape_.queries}, DType::f32),
                              b_.poisoned(packed_.shape)};
    ops_.attention(shape_,
                   {.q = packed_, .kv = packed_, .out = result.out, .log_sum_exp = result.log_sum_exp, .documents = documents});
    ops_.attention_backward(shape_, {.dout = gradient_,
                                     .q = packed_,
                                     .kv = packed_,
                                     .out = result.out,
                                     .log_sum_exp = result.log_sum_exp,
                                     .dq = result.dqkv,
                                     .dkv = result.dqkv,
                                     .documents = documents,
                                     .cos_sin = cos_sin});
    return result;
  }

  const Values qkv, dout;

 private:
  Bench& b_;
  SegmentShape shape_;
  Ops& ops_;
  Tensor packed_, gradient_;
};

void check_against_doubles(Bench& b, const SegmentShape& shape, Ops& ops) {
  SparseAttention attention(b, shape, ops);
  const auto expected = reference::attention(shape, attention.qkv);
  const Values gradient = reference::attention_backward(shape, attention.dout, attention.qkv);
  const SparseResult found = attention.run();
  CHECK(relative_error(b.rank.get(found.out), expected.out) < b.tolerance);
  CHECK(relative_error(b.rank.get(found.log_sum_exp), expected.log_sum_exp) < (b.dtype == DType::f32 ? 2e-5 : 2e-3));
  CHECK(relative_error(b.rank.get(found.dqkv), gradient) < b.tolerance);
  const Values angles = rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32);
  const SparseResult rotated = attention.run({}, b.put_f32(angles));
  CHECK((b.rank.bytes(rotated.out) == b.rank.bytes(found.out)));
  CHECK(relative_error(b.rank.get(rotated.dqkv), reference::rotary(shape, gradient, angles, true)) < b.tolerance);
}

// Calls check(bench, ops) with deterministic operations.
void attend_on_gpu(const std::function<void(Bench&, Ops&)>& check) {
  on_gpu([&](Bench& b) {
    const auto ops = make_cuda_ops(b.rank.stream(), true);
    check(b, *ops);
    CHECK(b.rank.guards_intact());
  });
}

TEST_CASE("GPU attention to sinks, blocks and stripes is that of double precision", "[gpu][sparse]") {
  const std::vector<SegmentShape> shapes{
      with_sinks(whole_sequences(2, 512, {4, 2, 64}), 100, 4),
      with_sinks(whole_sequences(2, 384, {4, 2, 128}), 128, 64),
      with_sinks(whole_sequences(2, 300, {4, 2, 64}), 40, 70),  // sinks of two tiles, a window within one
      with_sinks(whole_sequences(1, 333, {8, 2, 128}), 1, 1),
      with_sinks(whole_sequences(1, 200, {6, 1, 96}), 33, 130),
      with_sinks(whole_sequences(2, 256, {2, 1, 256}), 64, 20),
      with_sinks(whole_sequences(1, 200, {2, 2, 256}), 50, 3),
      with_sinks(whole_sequences(2, 150, {2, 1, 40}), 20, 10),
      with_sinks(whole_sequences(1, 200, {2, 1, 64}), 190, 150),  // most sinks stay within the window
      fixed_pattern(whole_sequences(2, 300, {4, 2, 64})),
      fixed_pattern(whole_sequences(1, 256, {2, 1, 128})),
      longformer_pattern(whole_sequences(2, 300, {4, 2, 64})),
      longformer_pattern(whole_sequences(1, 200, {2, 1, 256})),
  };
  attend_on_gpu([&](Bench& b, Ops& ops) {
    for (const SegmentShape& shape : shapes) {
      INFO(shape.batch << " x " << shape.queries << ", " << shape.heads << " heads on " << shape.kv_heads << " of "
                       << shape.head_dim << ", window " << shape.window << ", sinks " << shape.sinks << ", blocks of "
                       << shape.block);
      check_against_doubles(b, shape, ops);
    }
  });
}

// Documents that are whole sequences change nothing, but leave all of the shape to the kernels for patterns.
TEST_CASE("sinks that GPUs add to a window's attention are those of a pattern, with the same bits again", "[gpu][sparse]") {
  attend_on_gpu([&](Bench& b, Ops& ops) {
    if (b.dtype != DType::bf16) return;
    for (const SegmentShape& shape : {with_sinks(whole_sequences(1, 4096, {8, 2, 64}), 512, 64),
                                      with_sinks(whole_sequences(2, 3000, {4, 1, 128}), 700, 200)}) {
      INFO(shape.queries << " tokens, heads of " << shape.head_dim);
      SparseAttention attention(b, shape, ops);
      const SparseResult divided = attention.run(), again = attention.run();
      const SparseResult pattern = attention.run(b.rank.put(Values({shape.batch, shape.queries}), DType::i32));
      for (const auto& [one, other, whole] : {std::tuple(divided.out, again.out, pattern.out),
                                              std::tuple(divided.log_sum_exp, again.log_sum_exp, pattern.log_sum_exp),
                                              std::tuple(divided.dqkv, again.dqkv, pattern.dqkv)}) {
        CHECK((b.rank.bytes(one) == b.rank.bytes(other)));
        CHECK(relative_error(b.rank.get(one), b.rank.get(whole)) < b.tolerance);
      }
    }
  });
}

TEST_CASE("GPU sinks that the window hides from no query have the bits of no sinks", "[gpu][sparse]") {
  attend_on_gpu([&](Bench& b, Ops& ops) {
    SegmentShape shape = whole_sequences(1, 256, {4, 2, 64});
    const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
    const Tensor packed = b.put(qkv), log_sum_exp = b.rank.poisoned({1, 4, 256}, DType::f32);
    std::vector<std::vector<unsigned char>> outputs;
    for (const std::int64_t sinks : {0, 5}) {
      const Tensor out = b.poisoned({shape.tokens(), shape.query_cols()});
      ops.attention(with_sinks(shape, 256, sinks), {.q = packed, .kv = packed, .out = out, .log_sum_exp = log_sum_exp});
      outputs.push_back(b.rank.bytes(out));
    }
    CHECK((outputs[0] == outputs[1]));
  });
}

}  // namespace
}  // namespace pipetrain::testing
