// Fused operations on every backend of this machine.
#include <cmath>
#include <optional>
#include <tuple>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

// Grouped-query, one key head, odd lengths, lengths of and around the kernels' blocks, head sizes from 2 to 128.
const std::vector<SegmentShape> fused_attention_shapes{
    whole_sequences(1, 1, {1, 1, 2}),   whole_sequences(2, 5, {3, 3, 8}),    whole_sequences(1, 64, {2, 1, 32}),
    whole_sequences(2, 65, {6, 2, 64}), whole_sequences(2, 128, {4, 2, 64}), whole_sequences(1, 256, {3, 3, 128}),
    whole_sequences(1, 384, {4, 1, 64})};

TEST_CASE("attention's gradient with the rotary's is that of what was rotated, documents included", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const SegmentShape& shape : fused_attention_shapes) {
      for (const bool documented : {false, true}) {
        INFO(shape.batch << " x " << shape.queries << ", " << shape.heads << " on " << shape.kv_heads << " of "
                         << shape.head_dim << (documented ? ", documents" : ""));
        if (b.dtype != DType::f32 && shape.head_dim % 8 != 0) continue;  // cuDNN has no other head sizes
        if (documented && shape.queries > 65) continue;
        reference::Sight sight;
        if (documented) {
          sight.documents = Values(Shape{shape.tokens()});  // two in each sequence
          for (std::int64_t t = 0; t < shape.tokens(); ++t)
            sight.documents.data[static_cast<std::size_t>(t)] =
                t % shape.queries >= shape.queries / 3 ? double(shape.queries / 3) : 0;
        }
        const Values table = rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32);
        const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});  // rotated
        const Values dout = b.draw({shape.tokens(), shape.heads * shape.head_dim});
        const Tensor tqkv = b.put(qkv), tdout = b.put(dout), ttable = b.put_f32(table), out = b.poisoned(dout.shape);
        const Tensor dqkv = b.poisoned(qkv.shape),
                     log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
        const auto documents = documented ? std::optional(b.rank.put(sight.documents, DType::i32)) : std::nullopt;
        b.team.run([&](TestRank& r) {
          r.ops().attention(shape, {.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp, .documents = documents});
          r.ops().attention_backward(shape, {.dout = tdout,
                                             .q = tqkv,
                                             .kv = tqkv,
                                             .out = out,
                                             .log_sum_exp = log_sum_exp,
                                             .dq = dqkv,
                                             .dkv = dqkv,
                                             .documents = documents,
                                             .cos_sin = ttable});
        });
        const Values expected =
            reference::rotary(shape, reference::attention_backward(shape, dout, qkv, sight), table, true, sight.documents);
        CHECK(relative_error(b.rank.get(dqkv), expected) < b.tolerance);
      }
    }
  });
}

TEST_CASE("cross-entropy with its gradient in one pass has the bits of the two passes", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const auto& [t, vocabulary, wide] :
         {std::tuple{1, 1, 1}, {5, 3, 8}, {33, 101, 101}, {70, 1001, 1008}, {3, 50257, 50264}}) {
      INFO(t << " x " << vocabulary << " in rows of " << wide);
      Values logits = b.draw({t, wide}, 4);
      for (std::int64_t row = 0; row < t; ++row)
        for (std::int64_t col = vocabulary; col < wide; ++col) logits(row, col) = std::nan("");
      const Values counted = col_range(logits, 0, vocabulary), targets = random_ids(t, t > 1 ? -1 : 0, vocabulary, b.random);
      const Tensor once = b.put(logits), twice = b.put(logits), ttargets = b.rank.put(targets, DType::i32);
      const Tensor sums = b.rank.poisoned({2, t}, DType::f32), losses = b.rank.poisoned({2}, DType::f64);
      b.team.run([&](TestRank& r) {
        CrossEntropyArgs args{.tp = r.tp(false),
                              .logits = once,
                              .targets = ttargets,
                              .vocabulary = {0, vocabulary},
                              .log_sum_exp = {sums.data, {t}, DType::f32},
                              .loss_sum = losses.row_range(0, 1),
                              .gradient_scale = 0.25F};
        r.ops().cross_entropy(args);
        args.gradient_scale.reset();
        args.logits = twice;
        args.log_sum_exp = {static_cast<float*>(sums.data) + t, {t}, DType::f32};
        args.loss_sum = losses.row_range(1, 2);
        r.ops().cross_entropy(args);
        r.ops().cross_entropy_backward({.logits = twice,
                                        .targets = ttargets,
                                        .vocabulary = {0, vocabulary},
                                        .log_sum_exp = args.log_sum_exp,
                                        .scale = 0.25F});
      });
      CHECK((b.rank.bytes(once) == b.rank.bytes(twice)));
      CHECK((b.rank.bytes(sums.row_range(0, 1)) == b.rank.bytes(sums.row_range(1, 2))));
      CHECK((b.rank.bytes(losses.row_range(0, 1)) == b.rank.bytes(losses.row_range(1, 2))));
      const auto forward = reference::cross_entropy(counted, targets);
      CHECK(b.rank.get(losses).data[0] == Approx(forward.loss_sum).epsilon(1e-5).margin(1e-5));
      if (vocabulary > 1)
        CHECK(relative_error(col_range(b.rank.get(once), 0, vocabulary),
                             reference::cross_entropy_backward(counted, targets, 0.25)) < b.tolerance);
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
