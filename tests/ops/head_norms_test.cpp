// Norms of the heads of queries and keys, with their rotation, against norms of rows in double precision; and attention whose
// scores have a scale of their own.
#include <vector>

#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

struct NormCase {
  SegmentShape shape;
  float offset;
  std::int64_t rotated;  // columns of a head, or 0
};

// Columns [first, first + heads D) of a packed matrix, as a row for each head.
Values head_rows(const Values& packed, const SegmentShape& shape, std::int64_t first, std::int64_t heads) {
  Values rows = col_range(packed, first, first + heads * shape.head_dim);
  rows.shape = {shape.tokens() * heads, shape.head_dim};
  return rows;
}

void put_heads(Values& packed, const SegmentShape& shape, std::int64_t first, const Values& rows) {
  const std::int64_t cols = rows.shape.elements() / shape.tokens();
  for (std::int64_t token = 0; token < shape.tokens(); ++token)
    for (std::int64_t col = 0; col < cols; ++col)
      packed(token, first + col) = rows.data[static_cast<std::size_t>(token * cols + col)];
}

// One of the two norms: its weight, and its heads' first column and number.
struct OneNorm {
  Values weight;
  std::int64_t first, heads;
};

void check_head_norms(Bench& b, const NormCase& of) {
  constexpr double eps = 1e-6;
  const SegmentShape& shape = of.shape;
  const Values qkv = b.draw({shape.tokens(), shape.packed_cols()}), dqkv = b.draw(qkv.shape);
  const OneNorm norms[2] = {{b.draw({shape.head_dim}), 0, shape.heads},
                            {b.draw({shape.head_dim}), shape.query_cols(), shape.kv_heads}};
  Values expected = qkv, expected_grad = dqkv;
  std::vector<Values> weight_grads;
  HeadNorm args[2];
  Tensor sums[2];
  for (int i = 0; i < 2; ++i) {
    const auto& [weight, first, heads] = norms[i];
    Values gain = weight;
    for (double& value : gain.data) value += of.offset;
    const Values x = head_rows(qkv, shape, first, heads);
    put_heads(expected, shape, first, reference::rms_norm(x, gain, eps).y);
    const auto grads = reference::rms_norm_backward(head_rows(dqkv, shape, first, heads), x, gain, eps);
    put_heads(expected_grad, shape, first, grads.dx);
    weight_grads.push_back(grads.dweight);
    args[i] = {b.put(weight), b.poisoned({shape.tokens(), heads * shape.head_dim}),
               b.rank.poisoned({shape.tokens() * heads}, DType::f32)};
    sums[i] = b.put_f32(Values(Shape{shape.head_dim}));
  }
  std::optional<Tensor> angles;
  if (of.rotated > 0) {
    const Values table = rounded(reference::rotary_table(shape.queries, of.rotated, 1e4), DType::f32);
    angles = b.put_f32(table);
    expected = reference::rotary(shape, expected, table, false);
  }
  const Tensor tqkv = b.put(qkv), tdqkv = b.put(dqkv);
  b.team.run([&](TestRank& r) {
    r.ops().head_norms(shape,
                       {.qkv = tqkv, .queries = args[0], .keys = args[1], .eps = eps, .offset = of.offset, .cos_sin = angles});
    r.ops().head_norms_backward(shape, {.dqkv = tdqkv,
                                        .queries = args[0],
                                        .keys = args[1],
                                        .dquery_weight = sums[0],
                                        .dkey_weight = sums[1],
                                        .offset = of.offset});
  });
  CHECK(relative_error(b.rank.get(tqkv), expected) < b.tolerance);
  CHECK(relative_error(b.rank.get(tdqkv), expected_grad) < b.tolerance);
  for (const int i : {0, 1})
    CHECK(relative_error(b.rank.get(sums[i]), weight_grads[static_cast<std::size_t>(i)]) < statistics_tolerance);
  CHECK(b.rank.guards_intact());
}

TEST_CASE("norms of query and key heads, rotated or not, and their gradients match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const NormCase& of :
         {NormCase{whole_sequences(1, 1, {1, 1, 2}), 0, 2}, NormCase{whole_sequences(2, 5, {3, 3, 8}), 1, 0},
          NormCase{whole_sequences(1, 33, {4, 2, 16}), 0, 8}, NormCase{whole_sequences(2, 40, {6, 2, 36}), 1, 36},
          NormCase{whole_sequences(1, 70, {32, 8, 64}), 0, 64}, NormCase{whole_sequences(1, 21, {5, 1, 96}), 0, 96},
          NormCase{whole_sequences(2, 65, {32, 8, 128}), 0, 128}, NormCase{whole_sequences(1, 300, {8, 4, 256}), 1, 256}}) {
      INFO(of.shape.tokens() << " tokens, " << of.shape.heads << " heads on " << of.shape.kv_heads << " of "
                             << of.shape.head_dim << ", offset " << of.offset << ", " << of.rotated << " columns rotate");
      check_head_norms(b, of);
    }
  });
}

TEST_CASE("attention multiplies its scores by the scale that it is given", "[ops]") {
  on_every_backend([](Bench& b) {
    for (SegmentShape shape : {whole_sequences(2, 33, {4, 2, 16}), whole_sequences(1, 128, {2, 1, 64}),
                               whole_sequences(1, 192, {2, 1, 256}), whole_sequences(1, 200, {2, 1, 128})}) {
      for (const std::int64_t window : {std::int64_t{0}, std::int64_t{20}}) {
        shape.scale = 0.0771F, shape.window = window;
        INFO(shape.batch << " x " << shape.queries << ", heads of " << shape.head_dim << ", window " << window);
        const Values qkv = b.draw({shape.tokens(), shape.packed_cols()}), dout = b.draw({shape.tokens(), shape.query_cols()});
        const Tensor tqkv = b.put(qkv), tdout = b.put(dout), out = b.poisoned(dout.shape), dqkv = b.poisoned(qkv.shape);
        const Tensor log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
        b.team.run([&](TestRank& r) {
          r.ops().attention(shape, {.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp});
          r.ops().attention_backward(
              shape, {.dout = tdout, .q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp, .dq = dqkv, .dkv = dqkv});
        });
        CHECK(relative_error(b.rank.get(out), reference::attention(shape, qkv).out) < b.tolerance);
        CHECK(relative_error(b.rank.get(dqkv), reference::attention_backward(shape, dout, qkv)) < b.tolerance);
      }
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
