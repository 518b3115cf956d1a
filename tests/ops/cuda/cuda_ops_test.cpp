// The GPU's operations at shapes that fill more than one block, compared with the double precision reference, with
// fresh inputs in each run. The tests of every backend, with their many small shapes, run on GPUs too.
#include <algorithm>
#include <cmath>
#include <random>

#include "catch.hpp"
#include "ops/ops_fixture.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

const OpsBackend* gpu() {
  for (const OpsBackend* backend : ops_backends()) {
    if (backend->name() == "cuda") return backend;
  }
  test::needs_gpus(0);
  return nullptr;
}

std::mt19937_64& random_source() {
  static const auto seed = std::random_device{}();
  static std::mt19937_64 random(seed);
  UNSCOPED_INFO("seed " << seed);
  return random;
}

// Runs `check` for each activation type of the GPU.
void for_each_dtype(const std::function<void(TestTeam& team, TestRank& rank, DType dtype, double tolerance)>& check) {
  const OpsBackend* backend = gpu();
  if (backend == nullptr) return;
  for (const DType dtype : backend->dtypes()) {
    INFO(to_string(dtype));
    TestTeam team(*backend, 1);
    check(team, team[0], dtype, backend->tolerance(dtype));
  }
}

TEST_CASE("GPU matrix products, with and without residual", "[gpu]") {
  for_each_dtype([](TestTeam& team, TestRank& rank, DType dtype, double tolerance) {
    auto& random = random_source();
    struct Sizes {
      std::int64_t t, n, k;
    };
    for (const auto& [t, n, k] : {Sizes{300, 384, 192}, Sizes{257, 100, 36}, Sizes{1, 64, 128}, Sizes{64, 7, 33}}) {
      INFO(t << " tokens, " << k << " to " << n);
      const Values x = random_values({t, k}, random, dtype), w = random_values({n, k}, random, dtype);
      const Values dy = random_values({t, n}, random, dtype), residual = random_values({t, n}, random, dtype);
      const Values old = random_values({n, k}, random, DType::f32);
      const Tensor tx = rank.put(x, dtype), tw = rank.put(w, dtype), tdy = rank.put(dy, dtype);
      const Tensor y = rank.poisoned({t, n}, dtype), sum = rank.put(residual, dtype), dx = rank.poisoned({t, k}, dtype);
      const Tensor dw = rank.put(old, DType::f32);
      team.run([&](TestRank& r) {
        r.ops().gather_matmul({.tp = r.tp(false), .kind = MatmulKind::forward, .shard = tx, .w = tw, .full = tx, .out = y});
        r.ops().matmul_scatter(
            {.tp = r.tp(false), .kind = MatmulKind::forward, .in = tx, .w = tw, .residual = sum, .out = sum});
        r.ops().matmul_scatter({.tp = r.tp(false), .kind = MatmulKind::input_grad, .in = tdy, .w = tw, .out = dx});
        r.ops().weight_grad({.dy = tdy, .x = tx, .dw = dw});
      });
      const Values forward = reference::matmul(MatmulKind::forward, x, w);
      CHECK(relative_error(rank.get(y), forward) < tolerance);
      CHECK(relative_error(rank.get(sum), plus(forward, residual)) < tolerance);
      CHECK(relative_error(rank.get(dx), reference::matmul(MatmulKind::input_grad, dy, w)) < tolerance);
      CHECK(relative_error(rank.get(dw), plus(old, reference::weight_grad(dy, x))) < 1e-5);
    }
  });
}

TEST_CASE("GPU RMSNorm forward and backward", "[gpu]") {
  for_each_dtype([](TestTeam& team, TestRank& rank, DType dtype, double tolerance) {
    auto& random = random_source();
    for (const Shape& shape : {Shape{1000, 4096}, Shape{300, 8192}, Shape{7, 100}, Shape{33, 5}, Shape{600, 1024}}) {
      INFO(to_string(shape));
      const std::int64_t rows = shape[0], cols = shape[1];
      const Values x = random_values(shape, random, dtype), w = random_values({cols}, random, dtype);
      const Values dy = random_values(shape, random, dtype), residual = random_values(shape, random, dtype);
      const Values old = random_values({cols}, random, DType::f32);
      const Tensor tx = rank.put(x, dtype), tw = rank.put(w, dtype), tdy = rank.put(dy, dtype), tr = rank.put(residual, dtype);
      const Tensor y = rank.poisoned(shape, dtype), inv = rank.poisoned({rows}, DType::f32);
      const Tensor dx = rank.poisoned(shape, dtype), dweight = rank.put(old, DType::f32);
      team.run([&](TestRank& r) {
        r.ops().rms_norm({.x = tx, .weight = tw, .eps = 1e-5F, .y = y, .inv_rms = inv});
        r.ops().rms_norm_backward({.dy = tdy, .x = tx, .weight = tw, .inv_rms = inv, .dx = dx, .dweight = dweight});
        r.ops().rms_norm_backward(
            {.dy = tdy, .x = tx, .weight = tw, .inv_rms = inv, .residual = tr, .dx = tx, .dweight = dweight});
      });
      const auto forward = reference::rms_norm(x, w, 1e-5);
      const auto backward = reference::rms_norm_backward(dy, x, w, 1e-5);
      CHECK(relative_error(rank.get(y), forward.y) < tolerance);
      CHECK(relative_error(rank.get(inv), forward.inv_rms) < 1e-5);
      CHECK(relative_error(rank.get(dx), backward.dx) < tolerance);
      CHECK(relative_error(rank.get(tx), plus(backward.dx, residual)) < tolerance);
      CHECK(relative_error(rank.get(dweight), plus(old, plus(backward.dweight, backward.dweight))) < 1e-5);
    }
  });
}

TEST_CASE("GPU rotary embedding and SwiGLU", "[gpu]") {
  for_each_dtype([](TestTeam& team, TestRank& rank, DType dtype, double tolerance) {
    auto& random = random_source();
    for (const SegmentShape shape :
         {whole_sequences(2, 150, {32, 8, 128}), whole_sequences(1, 65, {3, 1, 64}), whole_sequences(3, 7, {2, 2, 6})}) {
      const Values qkv = random_values({shape.tokens(), shape.packed_cols()}, random, dtype);
      const Values table = rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32);
      const Tensor tq = rank.put(qkv, dtype), back = rank.put(qkv, dtype), tt = rank.put(table, DType::f32);
      team.run([&](TestRank& r) {
        r.ops().rotary(shape, {.qkv = tq, .cos_sin = tt});
        r.ops().rotary(shape, {.qkv = back, .cos_sin = tt, .inverse = true});
      });
      // The fixture runs the operations once on the real device, so in place tests as much as out of place.
      CHECK(relative_error(rank.get(tq), reference::rotary(shape, qkv, table, false)) < tolerance);
      CHECK(relative_error(rank.get(back), reference::rotary(shape, qkv, table, true)) < tolerance);
    }
    for (const Shape& shape : {Shape{333, 11008}, Shape{65, 30}, Shape{5, 7}}) {
      INFO(to_string(shape));
      const Values gate_up = random_values({shape[0], 2 * shape[1]}, random, dtype, 3),
                   dy = random_values(shape, random, dtype);
      const Tensor tg = rank.put(gate_up, dtype), tdy = rank.put(dy, dtype);
      const Tensor y = rank.poisoned(shape, dtype), dg = rank.poisoned({shape[0], 2 * shape[1]}, dtype);
      team.run([&](TestRank& r) {
        r.ops().swiglu({.gate_up = tg, .y = y});
        r.ops().swiglu_backward({.dy = tdy, .gate_up = tg, .dgate_up = dg});
      });
      CHECK(relative_error(rank.get(y), reference::swiglu(gate_up)) < tolerance);
      CHECK(relative_error(rank.get(dg), reference::swiglu_backward(dy, gate_up)) < tolerance);
    }
  });
}

TEST_CASE("GPU attention, grouped-query included", "[gpu]") {
  for_each_dtype([](TestTeam& team, TestRank& rank, DType dtype, double tolerance) {
    auto& random = random_source();
    std::vector<SegmentShape> shapes{whole_sequences(2, 200, {8, 2, 128}), whole_sequences(1, 256, {4, 4, 64}),
                                     whole_sequences(1, 129, {4, 1, 128}), whole_sequences(3, 64, {2, 2, 64})};
    if (dtype == DType::f32)
      shapes.insert(shapes.end(), {whole_sequences(2, 33, {4, 2, 16}), whole_sequences(1, 70, {2, 1, 256}),
                                   whole_sequences(1, 1, {2, 1, 8})});
    for (const SegmentShape& shape : shapes) {
      INFO(shape.batch << " x " << shape.queries << ", " << shape.heads << " on " << shape.kv_heads << " of "
                       << shape.head_dim);
      const Values qkv = random_values({shape.tokens(), shape.packed_cols()}, random, dtype);
      const Values dout = random_values({shape.tokens(), shape.heads * shape.head_dim}, random, dtype);
      const Tensor tq = rank.put(qkv, dtype), tdo = rank.put(dout, dtype);
      const Tensor out = rank.poisoned(dout.shape, dtype), dq = rank.poisoned(qkv.shape, dtype);
      const Tensor lse = rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
      team.run([&](TestRank& r) {
        r.ops().attention(shape, {.q = tq, .kv = tq, .out = out, .log_sum_exp = lse});
        r.ops().attention_backward(shape,
                                   {.dout = tdo, .q = tq, .kv = tq, .out = out, .log_sum_exp = lse, .dq = dq, .dkv = dq});
      });
      const auto forward = reference::attention(shape, qkv);
      CHECK(relative_error(rank.get(out), forward.out) < tolerance);
      CHECK(relative_error(rank.get(lse), forward.log_sum_exp) < 1e-5);
      CHECK(relative_error(rank.get(dq), reference::attention_backward(shape, dout, qkv)) < tolerance);
    }
  });
}

TEST_CASE("GPU embedding and its gradient", "[gpu]") {
  for_each_dtype([](TestTeam& team, TestRank& rank, DType dtype, double tolerance) {
    auto& random = random_source();
    struct Sizes {
      std::int64_t tokens, vocabulary, cols;
    };
    for (const auto& [tokens, vocabulary, cols] : {Sizes{3000, 5000, 256}, Sizes{1000, 3, 1024}, Sizes{77, 10, 30}}) {
      INFO(tokens << " tokens of " << vocabulary);
      const Values ids = random_ids(tokens, 0, vocabulary, random), table = random_values({vocabulary, cols}, random, dtype);
      const Values dy = random_values({tokens, cols}, random, dtype),
                   old = random_values({vocabulary, cols}, random, DType::f32);
      const Tensor ti = rank.put(ids, DType::i32), tt = rank.put(table, dtype), tdy = rank.put(dy, dtype);
      const Tensor out = rank.poisoned({tokens, cols}, dtype), dtable = rank.put(old, DType::f32);
      team.run([&](TestRank& r) {
        r.ops().embedding({.tp = r.tp(false), .ids = ti, .table = tt, .first_id = 0, .out = out});
        r.ops().embedding_grad({.ids = ti, .dy = tdy, .first_id = 0, .dtable = dtable});
      });
      CHECK(relative_error(rank.get(out), reference::embedding(ids, table)) < tolerance);
      CHECK(relative_error(rank.get(dtable), plus(old, reference::embedding_grad(ids, dy, vocabulary))) < 1e-5);
    }
  });
}

TEST_CASE("GPU cross-entropy in place", "[gpu]") {
  for_each_dtype([](TestTeam& team, TestRank& rank, DType dtype, double tolerance) {
    auto& random = random_source();
    for (const Shape& shape : {Shape{150, 32000}, Shape{40, 32001}, Shape{1100, 40}}) {
      INFO(to_string(shape));
      const Values logits = random_values(shape, random, dtype, 4),
                   targets = random_ids(shape[0], -shape[1] / 4, shape[1], random);
      const Tensor tl = rank.put(logits, dtype), tt = rank.put(targets, DType::i32);
      const Tensor lse = rank.poisoned({shape[0]}, DType::f32), loss = rank.poisoned({1}, DType::f64);
      team.run([&](TestRank& r) {
        r.ops().cross_entropy({.tp = r.tp(false),
                               .logits = tl,
                               .targets = tt,
                               .vocabulary = {0, shape[1]},
                               .log_sum_exp = lse,
                               .loss_sum = loss});
        r.ops().cross_entropy_backward(
            {.logits = tl, .targets = tt, .vocabulary = {0, shape[1]}, .log_sum_exp = lse, .scale = 0.25F});
      });
      const auto forward = reference::cross_entropy(logits, targets);
      CHECK(rank.get(loss).data[0] == Approx(forward.loss_sum).epsilon(1e-5));
      CHECK(relative_error(rank.get(lse), forward.log_sum_exp) < 1e-5);
      CHECK(relative_error(rank.get(tl), reference::cross_entropy_backward(logits, targets, 0.25)) < tolerance);
    }
  });
}

TEST_CASE("GPU optimizer, sums of squares and addition", "[gpu]") {
  const OpsBackend* backend = gpu();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  auto& random = random_source();
  for (const std::int64_t count : {1, 1000, 65536, 65537, 300001}) {
    INFO(count << " elements");
    Values weight = random_values({count}, random, DType::f32), m = random_values({count}, random, DType::f32, 0.1);
    const Values grad = random_values({count}, random, DType::f32);
    Values v = random_values({count}, random, DType::f32, 0.1);
    for (double& value : v.data) value = rounded(value * value, DType::f32);
    const Tensor tw = rank.put(weight, DType::f32), tg = rank.put(grad, DType::f32), tm = rank.put(m, DType::f32),
                 tv = rank.put(v, DType::f32);
    const Tensor sum = rank.poisoned({1}, DType::f64), again = rank.poisoned({1}, DType::f64),
                 more = rank.put(grad, DType::f32);
    const AdamW settings{1e-2F, 0.9F, 0.95F, 1e-8F, 0.1F, 3, 0.5F};
    team.run([&](TestRank& r) {
      r.ops().update({.weight = tw, .grad = tg, .states = {tm, tv}, .rule = settings});
      r.ops().square_sum(tg, sum);
      r.ops().square_sum(tg, again);
      r.ops().add(more, tg);
    });
    const Values stepped = rank.get(tw);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Tensor w = rank.put(weight, DType::f32), m2 = rank.put(m, DType::f32), v2 = rank.put(v, DType::f32);
      const Tensor before = rank.poisoned({count}, dtype), after = rank.poisoned({count}, dtype);
      team.run([&](TestRank& r) {
        r.ops().round(tw, before);
        r.ops().update({.weight = w, .grad = tg, .states = {m2, v2}, .rounded = after, .rule = settings});
      });
      CHECK((rank.get(before).data == rounded(stepped, dtype).data));
      CHECK((rank.bytes(w) == rank.bytes(tw)));
      CHECK((rank.bytes(after) == rank.bytes(before)));
    }
    reference::adamw(weight, grad, m, v, settings);
    CHECK(relative_error(rank.get(tw), weight) < 1e-6);
    CHECK(relative_error(rank.get(tm), m) < 1e-6);
    CHECK(relative_error(rank.get(tv), v) < 1e-6);
    CHECK(rank.get(sum).data[0] == Approx(reference::square_sum(grad)).epsilon(1e-12));
    CHECK((rank.bytes(sum) == rank.bytes(again)));
    CHECK(relative_error(rank.get(more), plus(grad, grad)) < 1e-7);
  }
}

// Returns the largest difference in a row, relative to the row's largest magnitude.
double worst_row(const Values& result, const Values& expected, std::int64_t cols) {
  double worst = 0;
  for (std::int64_t row = 0; row < expected.shape[0]; ++row) {
    double difference = 0, largest = 0;
    for (std::int64_t col = 0; col < cols; ++col) {
      difference = std::max(difference, std::abs(result(row, col) - expected(row, col)));
      largest = std::max(largest, std::abs(expected(row, col)));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

// If dQ is added as integers, each query has a unit of its own, and an outlier makes it coarser.
TEST_CASE("GPU attention's backward keeps small gradients among large ones, and loses no NaN", "[gpu]") {
  for_each_dtype([](TestTeam& team, TestRank& rank, DType dtype, double tolerance) {
    auto& random = random_source();
    for (const SegmentShape& shape : {whole_sequences(1, 256, {4, 2, 64}), whole_sequences(1, 256, {2, 2, 128})}) {
      const std::int64_t tokens = shape.tokens(), width = shape.heads * shape.head_dim;
      Values qkv = random_values({tokens, shape.packed_cols()}, random, dtype);
      Values dout = random_values({tokens, width}, random, dtype);
      for (std::int64_t row = 0; row < tokens; ++row)
        for (std::int64_t col = 0; col < width; ++col) dout(row, col) *= std::ldexp(1.0, static_cast<int>(row % 9) - 6);
      for (std::int64_t col = shape.packed_cols() - shape.head_dim; col < shape.packed_cols(); ++col) qkv(7, col) *= 32;
      const Tensor tqkv = rank.put(qkv, dtype), dqkv = rank.poisoned(qkv.shape, dtype);
      const Tensor out = rank.poisoned(dout.shape, dtype), lse = rank.poisoned({1, shape.heads, 256}, DType::f32);
      const auto backward = [&](const Values& given) {
        const Tensor tdout = rank.put(given, dtype);
        team.run([&](TestRank& r) {
          r.ops().attention(shape, {.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = lse});
          r.ops().attention_backward(
              shape, {.dout = tdout, .q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = lse, .dq = dqkv, .dkv = dqkv});
        });
        return rank.get(dqkv);
      };
      INFO(shape.heads << " heads of " << shape.head_dim);
      Values expected = reference::attention_backward(shape, dout, qkv), result = backward(dout);
      const Values before = result;
      for (std::int64_t row = 0; row < 16; ++row)  // with few keys the error grows: one key's share is always 1
        for (std::int64_t col = 0; col < width; ++col) expected(row, col) = result(row, col) = 1;
      CHECK(worst_row(result, expected, width) < 4 * tolerance);
      Values with_nan = dout;
      with_nan(100, 3) = std::nan("");
      const Values spoilt = backward(with_nan);
      for (std::int64_t col = 0; col < shape.head_dim; ++col) {
        CHECK(std::isnan(spoilt(100, col)));
        CHECK(spoilt(99, col) == before(99, col));
      }
    }
  });
}

void check_same_bits(TestRank& rank, DType dtype, const SegmentShape& shape) {
  INFO(shape.queries << " tokens");
  auto& random = random_source();
  const std::int64_t tokens = shape.tokens(), hidden = 1024;
  const Tensor qkv = rank.put(random_values({tokens, shape.packed_cols()}, random, dtype), dtype);
  const Tensor x = rank.put(random_values({tokens, hidden}, random, dtype), dtype);
  const Tensor dy = rank.put(random_values({tokens, hidden}, random, dtype), dtype);
  const Tensor w = rank.put(random_values({hidden}, random, dtype), dtype),
               ids = rank.put(random_ids(tokens, 0, 50, random), DType::i32);
  const auto deterministic = make_cuda_ops(rank.stream(), true);
  std::vector<std::vector<unsigned char>> first;
  for (int round = 0; round < 3; ++round) {
    const Tensor out = rank.poisoned({tokens, hidden}, dtype), dqkv = rank.poisoned(qkv.shape, dtype);
    const Tensor lse = rank.poisoned({1, 8, tokens}, DType::f32), inv = rank.poisoned({tokens}, DType::f32);
    const Tensor y = rank.poisoned(x.shape, dtype), dx = rank.poisoned(x.shape, dtype);
    const Tensor dweight = rank.put(Values({hidden}), DType::f32), dtable = rank.put(Values({50, hidden}), DType::f32);
    const Tensor dw = rank.put(Values({hidden, hidden}), DType::f32);
    Ops& ops = *deterministic;
    ops.rms_norm({.x = x, .weight = w, .eps = 1e-5F, .y = y, .inv_rms = inv});
    ops.rms_norm_backward({.dy = dy, .x = x, .weight = w, .inv_rms = inv, .dx = dx, .dweight = dweight});
    ops.embedding_grad({.ids = ids, .dy = dy, .first_id = 0, .dtable = dtable});
    ops.weight_grad({.dy = dy, .x = x, .dw = dw});
    ops.attention(shape, {.q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse});
    ops.attention_backward(shape, {.dout = dy, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse, .dq = dqkv, .dkv = dqkv});
    std::vector<std::vector<unsigned char>> results;
    for (const Tensor& result : {y, dx, dweight, dtable, dw, out, dqkv}) results.push_back(rank.bytes(result));
    if (round == 0) {
      first = results;
    } else {
      CHECK((results == first));
    }
  }
}

// A shape for a kernel of ours, and one for cuDNN, which must be told to be deterministic.
TEST_CASE("GPU operations give the same bits again", "[gpu]") {
  for_each_dtype([](TestTeam&, TestRank& rank, DType dtype, double) {
    for (const std::int64_t sequence : {1024, 1000}) check_same_bits(rank, dtype, whole_sequences(1, sequence, {8, 2, 128}));
  });
}

}  // namespace
}  // namespace pipetrain::testing
