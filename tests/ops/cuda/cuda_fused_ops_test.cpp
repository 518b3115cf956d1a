// Fused operations on a GPU at shapes that fill it.
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

// Rows that fit one block, two, four and eight, and one that fits none; more rows than clusters of blocks at once.
TEST_CASE("GPU cross-entropy reads long rows once: sums and gradients of the two passes", "[gpu]") {
  on_gpu([](Bench& b) {
    TestRank& rank = b.rank;
    const DType dtype = b.dtype;
    struct Sizes {
      std::int64_t rows, vocabulary, wide;
    };
    std::vector<Sizes> all{{900, 4000, 4000}, {30, 32000, 32000}, {20, 50257, 50264}, {6, 128256, 128256}, {5, 200003, 200008}};
    if (dtype == DType::bf16) all.insert(all.end(), {{280, 50257, 50264}, {130, 128256, 128256}, {2, 270000, 270000}});
    for (const auto& [rows, vocabulary, wide] : all) {
      INFO(rows << " x " << vocabulary);
      Values logits = random_values({rows, wide}, b.random, dtype, 4);
      logits(0, vocabulary / 2) = 60;
      const Values counted = col_range(logits, 0, vocabulary),
                   targets = random_ids(rows, -vocabulary / 4, vocabulary, b.random);
      const Tensor once = rank.put(logits, dtype), twice = rank.put(logits, dtype), tt = rank.put(targets, DType::i32);
      const Tensor lse = rank.poisoned({rows}, DType::f32), loss = rank.poisoned({1}, DType::f64);
      const Tensor lse2 = rank.poisoned({rows}, DType::f32), loss2 = rank.poisoned({1}, DType::f64);
      b.team.run([&](TestRank& r) {
        const VocabularyRows all_rows{0, vocabulary};
        r.ops().cross_entropy({.tp = r.tp(false),
                               .logits = once,
                               .targets = tt,
                               .vocabulary = all_rows,
                               .log_sum_exp = lse,
                               .loss_sum = loss,
                               .gradient_scale = 0.25F});
        r.ops().cross_entropy({.tp = r.tp(false),
                               .logits = twice,
                               .targets = tt,
                               .vocabulary = all_rows,
                               .log_sum_exp = lse2,
                               .loss_sum = loss2});
        r.ops().cross_entropy_backward(
            {.logits = twice, .targets = tt, .vocabulary = all_rows, .log_sum_exp = lse2, .scale = 0.25F});
      });
      CHECK((rank.bytes(once) == rank.bytes(twice)));
      CHECK((rank.bytes(lse) == rank.bytes(lse2)));
      CHECK((rank.bytes(loss) == rank.bytes(loss2)));
      const auto forward = reference::cross_entropy(counted, targets);
      CHECK(rank.get(loss).data[0] == Approx(forward.loss_sum).epsilon(1e-5));
      CHECK(relative_error(rank.get(lse), forward.log_sum_exp) < 1e-5);
      const Values gradient = rank.get(once);
      CHECK(relative_error(col_range(gradient, 0, vocabulary), reference::cross_entropy_backward(counted, targets, 0.25)) <
            b.tolerance);
      for (std::int64_t col = vocabulary; col < wide; ++col) CHECK(gradient(rows - 1, col) == 0);
    }
  });
}

TEST_CASE("GPU attention's backward turns dQ and dK back as rotary does, to the bit", "[gpu]") {
  on_gpu([](Bench& b) {
    TestRank& rank = b.rank;
    const DType dtype = b.dtype;
    // A group of heads in one part and in several, an odd number of heads, and a shape that is left to other kernels.
    for (const SegmentShape& shape :
         {whole_sequences(2, 256, {3, 3, 64}), whole_sequences(1, 384, {5, 5, 128}), whole_sequences(2, 256, {8, 2, 64}),
          whole_sequences(1, 256, {6, 1, 128}), whole_sequences(16, 256, {16, 8, 64}), whole_sequences(1, 200, {4, 2, 64})}) {
      INFO(shape.batch << " x " << shape.queries << ", " << shape.heads << " on " << shape.kv_heads << " of "
                       << shape.head_dim);
      const Shape width{shape.tokens(), shape.heads * shape.head_dim};
      const Tensor qkv = rank.put(random_values({shape.tokens(), shape.packed_cols()}, b.random, dtype), dtype);
      const Tensor dout = rank.put(random_values(width, b.random, dtype), dtype), out = rank.poisoned(width, dtype);
      const Tensor cos_sin =
          rank.put(rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32), DType::f32);
      const Tensor once = rank.poisoned(qkv.shape, dtype), twice = rank.poisoned(qkv.shape, dtype);
      const Tensor lse = rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
      const auto ops = make_cuda_ops(rank.stream(), true);
      ops->attention(shape, {.q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse});
      AttentionBackwardArgs args{.dout = dout, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse, .dq = twice, .dkv = twice};
      ops->attention_backward(shape, args);
      ops->rotary(shape, {.qkv = twice, .cos_sin = cos_sin, .inverse = true});
      args.dq = args.dkv = once;
      args.cos_sin = cos_sin;
      ops->attention_backward(shape, args);
      CHECK((rank.bytes(once) == rank.bytes(twice)));
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
