// Every operation on every backend of this machine, on one rank, compared with the double precision reference: random
// inputs, odd sizes, outputs poisoned first. ops_parallel_test.cpp tests several ranks.
#include <tuple>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

struct ProductSizes {
  std::int64_t tokens, out, in;
};
const std::vector<ProductSizes> product_sizes{{1, 1, 1},     {3, 5, 7},      {64, 48, 32},
                                              {33, 17, 129}, {257, 200, 96}, {300, 260, 210}};

TEST_CASE("matrix products match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const auto& [t, n, k] : product_sizes) {
      INFO(t << " tokens, " << k << " to " << n);
      const Values x = b.draw({t, k}), w = b.draw({n, k}), dy = b.draw({t, n}), residual = b.draw({t, n}),
                   old = b.draw_f32({n, k});
      const Tensor tx = b.put(x), tw = b.put(w), tdy = b.put(dy), tr = b.put(residual), in_place = b.put(residual);
      const Tensor y = b.poisoned({t, n}), sum = b.poisoned({t, n}), plain = b.poisoned({t, n});
      const Tensor dx = b.poisoned({t, k}), dx2 = b.poisoned({t, k}), dw = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().gather_matmul({.tp = r.tp(false), .kind = MatmulKind::forward, .shard = tx, .w = tw, .full = tx, .out = y});
        r.ops().gather_matmul(
            {.tp = r.tp(false), .kind = MatmulKind::input_grad, .shard = tdy, .w = tw, .full = tdy, .out = dx});
        r.ops().matmul_scatter({.tp = r.tp(false), .kind = MatmulKind::forward, .in = tx, .w = tw, .out = plain});
        r.ops().matmul_scatter({.tp = r.tp(false), .kind = MatmulKind::forward, .in = tx, .w = tw, .residual = tr, .out = sum});
        r.ops().matmul_scatter(
            {.tp = r.tp(false), .kind = MatmulKind::forward, .in = tx, .w = tw, .residual = in_place, .out = in_place});
        r.ops().matmul_scatter({.tp = r.tp(false), .kind = MatmulKind::input_grad, .in = tdy, .w = tw, .out = dx2});
        r.ops().weight_grad({.dy = tdy, .x = tx, .dw = dw});
      });
      const Values forward = reference::matmul(MatmulKind::forward, x, w);
      const Values backward = reference::matmul(MatmulKind::input_grad, dy, w);
      CHECK(relative_error(b.rank.get(y), forward) < b.tolerance);
      CHECK(relative_error(b.rank.get(plain), forward) < b.tolerance);
      CHECK(relative_error(b.rank.get(sum), plus(forward, residual)) < b.tolerance);
      CHECK((b.rank.bytes(in_place) == b.rank.bytes(sum)));
      CHECK(relative_error(b.rank.get(dx), backward) < b.tolerance);
      CHECK(relative_error(b.rank.get(dx2), backward) < b.tolerance);
      CHECK(relative_error(b.rank.get(dw), plus(old, reference::weight_grad(dy, x))) < statistics_tolerance);
    }
  });
}

TEST_CASE("a weight gradient written over NaN has the bits of one added to zeros", "[ops]") {
  on_every_backend([](Bench& b) {
    std::vector<ProductSizes> sizes = product_sizes;
    sizes.push_back({0, 5, 7});
    for (const auto& [t, n, k] : sizes) {
      INFO(t << " tokens, " << k << " to " << n);
      const Tensor x = b.put(b.draw({t, k})), dy = b.put(b.draw({t, n}));
      const Tensor written = b.rank.poisoned({n, k}, DType::f32), added = b.put_f32(Values({n, k}));
      b.team.run([&](TestRank& r) {
        r.ops().weight_grad({.dy = dy, .x = x, .dw = written, .accumulate = Accumulate::no});
        r.ops().weight_grad({.dy = dy, .x = x, .dw = added});
      });
      CHECK(b.rank.bytes(written) == b.rank.bytes(added));
    }
  });
}

TEST_CASE("embedding and its gradient match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const auto& [tokens, vocabulary, hidden] : {ProductSizes{1, 1, 1}, {37, 11, 30}, {300, 101, 200}}) {
      INFO(tokens << " tokens of " << vocabulary << ", hidden " << hidden);
      const Values ids = random_ids(tokens, 0, vocabulary, b.random), table = b.draw({vocabulary, hidden});
      const Values dy = b.draw({tokens, hidden}), old = b.draw_f32({vocabulary, hidden});
      const Tensor tids = b.rank.put(ids, DType::i32), ttable = b.put(table), tdy = b.put(dy);
      const Tensor out = b.poisoned({tokens, hidden}), dtable = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().embedding({.tp = r.tp(false), .ids = tids, .table = ttable, .first_id = 0, .out = out});
        r.ops().embedding_grad({.ids = tids, .dy = tdy, .first_id = 0, .dtable = dtable});
      });
      CHECK(relative_error(b.rank.get(out), reference::embedding(ids, table)) == 0);
      const Values expected = plus(old, reference::embedding_grad(ids, dy, vocabulary));
      CHECK(relative_error(b.rank.get(dtable), expected) < statistics_tolerance);
    }
  });
}

TEST_CASE("RMSNorm and its gradient match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 64}, Shape{5, 31}, Shape{77, 200}, Shape{300, 512}}) {
      INFO(to_string(shape));
      const Values x = b.draw(shape), w = b.draw({shape[1]}), dy = b.draw(shape), residual = b.draw(shape);
      const Values old = b.draw_f32({shape[1]});
      const Tensor tx = b.put(x), tw = b.put(w), tdy = b.put(dy), tr = b.put(residual), in_place = b.put(x);
      const Tensor y = b.poisoned(shape), inv_rms = b.rank.poisoned({shape[0]}, DType::f32);
      const Tensor dx = b.poisoned(shape), dx_sum = b.poisoned(shape);
      const Tensor dweight = b.put_f32(old), dweight3 = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().rms_norm({.x = tx, .weight = tw, .eps = 1e-5F, .y = y, .inv_rms = inv_rms});
        r.ops().rms_norm_backward({.dy = tdy, .x = tx, .weight = tw, .inv_rms = inv_rms, .dx = dx, .dweight = dweight});
        r.ops().rms_norm_backward(
            {.dy = tdy, .x = tx, .weight = tw, .inv_rms = inv_rms, .residual = tr, .dx = dx_sum, .dweight = dweight3});
        r.ops().rms_norm_backward(
            {.dy = tdy, .x = in_place, .weight = tw, .inv_rms = inv_rms, .residual = tr, .dx = in_place, .dweight = dweight3});
      });
      const auto forward = reference::rms_norm(x, w, 1e-5);
      const auto grads = reference::rms_norm_backward(dy, x, w, 1e-5);
      CHECK(relative_error(b.rank.get(y), forward.y) < b.tolerance);
      CHECK(relative_error(b.rank.get(inv_rms), forward.inv_rms) < statistics_tolerance);
      // With one column, the gradient is a remainder of terms that cancel.
      if (shape[1] > 1) CHECK(relative_error(b.rank.get(dx), grads.dx) < b.tolerance);
      CHECK(relative_error(b.rank.get(dx_sum), plus(grads.dx, residual)) < b.tolerance);
      CHECK((b.rank.bytes(in_place) == b.rank.bytes(dx_sum)));
      CHECK(relative_error(b.rank.get(dweight), plus(old, grads.dweight)) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(dweight3), plus(old, scaled(grads.dweight, 2))) < statistics_tolerance);
    }
  });
}

// Grouped-query, one key head, odd lengths, lengths of and around the kernels' blocks, head sizes from 2 to 128.
const std::vector<SegmentShape> plain_attention_shapes{
    whole_sequences(1, 1, {1, 1, 2}),     whole_sequences(2, 5, {3, 3, 8}),     whole_sequences(1, 63, {4, 2, 16}),
    whole_sequences(1, 64, {2, 1, 32}),   whole_sequences(2, 65, {6, 2, 64}),   whole_sequences(1, 130, {4, 4, 64}),
    whole_sequences(1, 257, {2, 1, 128}), whole_sequences(3, 33, {8, 1, 16}),   whole_sequences(2, 128, {4, 2, 64}),
    whole_sequences(1, 256, {3, 3, 128}), whole_sequences(1, 384, {6, 1, 64}),  whole_sequences(1, 384, {4, 2, 128}),
    whole_sequences(2, 70, {2, 1, 256}),  whole_sequences(1, 192, {4, 2, 256}), whole_sequences(2, 320, {3, 3, 256}),
    whole_sequences(2, 100, {4, 2, 96}),  whole_sequences(1, 256, {3, 1, 96}),  whole_sequences(3, 200, {2, 2, 64}),
    whole_sequences(3, 77, {4, 1, 128}),  whole_sequences(3, 1, {2, 1, 256})};

std::string text(const SegmentShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.queries) + ", " + std::to_string(s.heads) + " heads on " +
         std::to_string(s.kv_heads) + " of " + std::to_string(s.head_dim);
}

TEST_CASE("rotary embedding matches the reference and its inverse undoes it", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const SegmentShape& shape : plain_attention_shapes) {
      INFO(text(shape));
      const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
      const Values table = rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32);
      const Tensor ttable = b.put_f32(table), forward = b.put(qkv), inverse = b.put(qkv), both = b.put(qkv);
      b.team.run([&](TestRank& r) {
        r.ops().rotary(shape, {.qkv = forward, .cos_sin = ttable});
        r.ops().rotary(shape, {.qkv = inverse, .cos_sin = ttable, .inverse = true});
        r.ops().rotary(shape, {.qkv = both, .cos_sin = ttable});
        r.ops().rotary(shape, {.qkv = both, .cos_sin = ttable, .inverse = true});
      });
      CHECK(relative_error(b.rank.get(forward), reference::rotary(shape, qkv, table, false)) < b.tolerance);
      CHECK(relative_error(b.rank.get(inverse), reference::rotary(shape, qkv, table, true)) < b.tolerance);
      CHECK(relative_error(b.rank.get(both), qkv) < 2 * b.tolerance);
    }
  });
}

TEST_CASE("SwiGLU and its gradient match the reference, large gates included", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 19}, Shape{64, 96}, Shape{130, 333}}) {
      for (const double deviation : {1.0, 30.0, 200.0}) {
        if (deviation > 1 && b.dtype == DType::f16) continue;  // results exceed its range
        INFO(to_string(shape) << ", gates of " << deviation);
        const Values gate_up = b.draw({shape[0], 2 * shape[1]}, deviation), dy = b.draw(shape);
        const Tensor tg = b.put(gate_up), tdy = b.put(dy), y = b.poisoned(shape), grad = b.poisoned(gate_up.shape);
        b.team.run([&](TestRank& r) {
          r.ops().swiglu({.gate_up = tg, .y = y});
          r.ops().swiglu_backward({.dy = tdy, .gate_up = tg, .dgate_up = grad});
          r.ops().swiglu_backward({.dy = tdy, .gate_up = tg, .dgate_up = tg});
        });
        CHECK(relative_error(b.rank.get(y), reference::swiglu(gate_up)) < b.tolerance);
        for (const Tensor& result : {grad, tg})  // out of place and in place
          CHECK(relative_error(b.rank.get(result), reference::swiglu_backward(dy, gate_up)) < b.tolerance);
      }
    }
  });
}

TEST_CASE("attention and its gradient match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const SegmentShape& shape : plain_attention_shapes) {
      INFO(text(shape));
      if (b.dtype != DType::f32 && shape.head_dim % 8 != 0) continue;  // cuDNN has no other head sizes
      const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
      const Values dout = b.draw({shape.tokens(), shape.heads * shape.head_dim});
      const Tensor tqkv = b.put(qkv), tdout = b.put(dout), out = b.poisoned(dout.shape), dqkv = b.poisoned(qkv.shape);
      const Tensor log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
      b.team.run([&](TestRank& r) {
        r.ops().attention(shape, {.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp});
        r.ops().attention_backward(
            shape, {.dout = tdout, .q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp, .dq = dqkv, .dkv = dqkv});
      });
      const auto forward = reference::attention(shape, qkv);
      CHECK(relative_error(b.rank.get(out), forward.out) < b.tolerance);
      CHECK(relative_error(b.rank.get(log_sum_exp), forward.log_sum_exp) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(dqkv), reference::attention_backward(shape, dout, qkv)) < b.tolerance);
    }
  });
}

TEST_CASE("logits may have columns that do not count: what they hold does not matter, their gradient is zero", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const auto& [t, vocabulary, wide] : {std::tuple{5, 3, 8}, {33, 37, 40}, {70, 1001, 1008}, {64, 40, 41}}) {
      INFO(t << " x " << vocabulary << " in rows of " << wide);
      Values logits = b.draw({t, wide}, 4);
      for (std::int64_t row = 0; row < t; ++row) {
        for (std::int64_t col = vocabulary; col < wide; ++col) logits(row, col) = std::nan("");
      }
      const Values counted = col_range(logits, 0, vocabulary), targets = random_ids(t, -1, vocabulary, b.random);
      const Tensor tlogits = b.put(logits), ttargets = b.rank.put(targets, DType::i32);
      const Tensor log_sum_exp = b.rank.poisoned({t}, DType::f32), loss = b.rank.poisoned({1}, DType::f64);
      b.team.run([&](TestRank& r) {
        r.ops().cross_entropy({.tp = r.tp(false),
                               .logits = tlogits,
                               .targets = ttargets,
                               .vocabulary = {0, vocabulary},
                               .log_sum_exp = log_sum_exp,
                               .loss_sum = loss});
        r.ops().cross_entropy_backward({.logits = tlogits,
                                        .targets = ttargets,
                                        .vocabulary = {0, vocabulary},
                                        .log_sum_exp = log_sum_exp,
                                        .scale = 0.25F});
      });
      const auto forward = reference::cross_entropy(counted, targets);
      CHECK(b.rank.get(loss).data[0] == Approx(forward.loss_sum).epsilon(1e-5));
      CHECK(relative_error(b.rank.get(log_sum_exp), forward.log_sum_exp) < statistics_tolerance);
      const Values grad = b.rank.get(tlogits);
      CHECK(relative_error(col_range(grad, 0, vocabulary), reference::cross_entropy_backward(counted, targets, 0.25)) <
            b.tolerance);
      for (std::int64_t row = 0; row < t; ++row) {
        for (std::int64_t col = vocabulary; col < wide; ++col) CHECK(grad(row, col) == 0);
      }
    }
  });
}

TEST_CASE("cross-entropy and its gradient match the reference, uncounted targets and large logits included", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 3}, Shape{33, 101}, Shape{100, 1000}}) {
      for (const double deviation : {1.0, 40.0}) {
        INFO(to_string(shape) << ", logits of " << deviation);
        const Values logits = b.draw(shape, deviation);
        const Values targets = random_ids(shape[0], shape[0] > 1 ? -1 : 0, shape[1], b.random);
        const Tensor tlogits = b.put(logits), ttargets = b.rank.put(targets, DType::i32);
        const Tensor log_sum_exp = b.rank.poisoned({shape[0]}, DType::f32), loss = b.rank.poisoned({1}, DType::f64);
        b.team.run([&](TestRank& r) {
          r.ops().cross_entropy({.tp = r.tp(false),
                                 .logits = tlogits,
                                 .targets = ttargets,
                                 .vocabulary = {0, shape[1]},
                                 .log_sum_exp = log_sum_exp,
                                 .loss_sum = loss});
          r.ops().cross_entropy_backward({.logits = tlogits,
                                          .targets = ttargets,
                                          .vocabulary = {0, shape[1]},
                                          .log_sum_exp = log_sum_exp,
                                          .scale = 0.25F});
        });
        const auto forward = reference::cross_entropy(logits, targets);
        CHECK(b.rank.get(loss).data[0] == Approx(forward.loss_sum).epsilon(1e-5).margin(1e-5));
        CHECK(relative_error(b.rank.get(log_sum_exp), forward.log_sum_exp) < statistics_tolerance);
        const Values grad = reference::cross_entropy_backward(logits, targets, 0.25), actual = b.rank.get(tlogits);
        if (shape[1] > 1) CHECK(relative_error(actual, grad) < b.tolerance);
        for (std::int64_t t = 0; t < shape[0]; ++t) {
          if (targets.data[static_cast<std::size_t>(t)] >= 0) continue;
          for (std::int64_t v = 0; v < shape[1]; ++v) CHECK(actual(t, v) == 0);
        }
      }
    }
  });
}

TEST_CASE("the last counted row of each run is taken, of its own columns", "[ops]") {
  on_every_backend([](Bench& b) {
    constexpr std::int64_t runs = 4, length = 300, wide = 8;
    const Values logits = b.draw({runs * length, wide});
    Values targets({runs * length});
    std::fill(targets.data.begin(), targets.data.end(), -100);
    const std::int64_t last[] = {0, length - 1, 130, -1};  // the last range counts nothing
    for (std::int64_t run = 0; run < runs; ++run) {
      if (last[run] >= 0) targets.data[static_cast<std::size_t>(run * length + last[run])] = 1;
    }
    targets.data[static_cast<std::size_t>(2 * length + 7)] = 0;  // an earlier one
    const Tensor tlogits = b.put(logits), ttargets = b.rank.put(targets, DType::i32);
    for (const std::int64_t cols : {0, 1, 3, 8}) {
      const Tensor rows = b.rank.poisoned({runs, cols}, DType::f64);
      b.team.run([&](TestRank& r) { r.ops().counted_rows(tlogits, ttargets, rows); });
      const Values found = b.rank.get(rows);
      for (std::int64_t run = 0; run < runs; ++run) {
        for (std::int64_t col = 0; col < cols; ++col)
          CHECK(found(run, col) == (last[run] < 0 ? 0 : logits(run * length + last[run], col)));
      }
    }
  });
}

TEST_CASE("sums of squares and additions over flat arenas match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const std::int64_t count : {1, 999, 65536, 200001}) {
      INFO(count << " elements");
      const Values x = b.draw_f32({count}), y = b.draw_f32({count});
      const Tensor tx = b.put_f32(x), ty = b.put_f32(y), sum = b.rank.poisoned({1}, DType::f64);
      const Tensor dx = b.rank.put(x, DType::f64), dy = b.rank.put(y, DType::f64);
      b.team.run([&](TestRank& r) {
        r.ops().square_sum(tx, sum);
        r.ops().add(ty, tx);
        r.ops().add(dy, dx);
      });
      CHECK(b.rank.get(sum).data[0] == Approx(reference::square_sum(x)).epsilon(1e-12));
      CHECK(relative_error(b.rank.get(ty), plus(y, x)) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(dy), plus(y, x)) == 0);
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
