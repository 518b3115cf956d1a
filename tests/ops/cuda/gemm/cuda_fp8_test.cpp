// 8-bit matrices on GPUs: their rounding bit by bit, their products compared with a double precision reference of the
// rounded operands.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fp8.hpp"
#include "ops/cuda/gemm/fp8_gpu.hpp"

namespace pipetrain::testing {
namespace {

Fp8Matrix make_fp8_matrix(TestRank& rank, const Shape& shape, DType type) {
  return {rank.poisoned(shape, type), rank.poisoned({shape[1], round_up_to_fp8(shape[0])}, type),
          rank.poisoned({2}, DType::f32)};
}

double largest_of(const Values& values) {
  double largest = 0;
  for (const double value : values.data) largest = std::max(largest, std::abs(value));
  return largest;
}

// Returns the values of the 8-bit numbers.
Values meant_by_scale(TestRank& rank, const Tensor& values, const Tensor& scale) {
  return scaled(rank.get(values), rank.get(scale).data[0]);
}

bool all_nan(const Values& values) {
  return std::all_of(values.data.begin(), values.data.end(), [](double value) { return std::isnan(value); });
}

TEST_CASE("GPU rounding to 8 bits, in both layouts", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  std::mt19937_64 random(std::random_device{}());
  for (const Shape& shape : {Shape{256, 256}, Shape{300, 400}, Shape{1, 16}, Shape{129, 1040}, Shape{17, 48}}) {
    for (const DType type : {DType::e4m3, DType::e5m2}) {
      INFO(to_string(shape) << " " << to_string(type));
      const Values x = random_values(shape, random, DType::bf16, 1e-3);
      const Tensor tx = rank.put(x, DType::bf16);
      const Fp8Matrix both = make_fp8_matrix(rank, shape, type), again = make_fp8_matrix(rank, shape, type);
      const Fp8Matrix cols{{}, again.cols, again.scale};
      team.run([&](TestRank& r) {
        r.ops().quantise({.x = tx, .out = both});
        r.ops().quantise({.x = tx, .out = cols});
      });
      const Values scale = rank.get(both.scale), rows = rank.get(both.rows), transposed = rank.get(both.cols);
      const auto largest = static_cast<float>(largest_of(x)), factor = static_cast<float>(test::largest_fp8(type)) / largest;
      CHECK(scale.data[1] == largest);
      CHECK(std::abs(scale.data[0] * factor - 1) < 1e-6);
      int wrong = 0;
      for (std::int64_t row = 0; row < shape[0]; ++row) {
        for (std::int64_t col = 0; col < shape[1]; ++col) {
          const double expected = test::round_to_fp8(static_cast<float>(x(row, col)) * factor, type);
          wrong += (rows(row, col) != expected ? 1 : 0) + (transposed(col, row) != expected ? 1 : 0);
        }
      }
      CHECK(wrong == 0);
      for (std::int64_t col = 0; col < shape[1]; ++col) {
        for (std::int64_t row = shape[0]; row < transposed.cols(); ++row) wrong += transposed(col, row) != 0 ? 1 : 0;
      }
      CHECK(wrong == 0);
      CHECK(rank.bytes(cols.cols) == rank.bytes(both.cols));
    }
  }
}

TEST_CASE("GPU rounding to 8 bits of zeros, of very small numbers and of what is not finite", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  const Shape shape{32, 32};
  const auto rounded_with = [&](double one) {
    Values x(shape);
    x(5, 7) = one;
    if (std::isinf(one)) x(0, 0) = 1;
    const Tensor tx = rank.put(x, DType::bf16);
    const Fp8Matrix matrix = make_fp8_matrix(rank, shape, DType::e5m2);
    team.run([&](TestRank& r) { r.ops().quantise({.x = tx, .out = matrix}); });
    return std::pair(meant_by_scale(rank, matrix.rows, matrix.scale), meant_by_scale(rank, matrix.cols, matrix.scale));
  };
  CHECK(largest_of(rounded_with(0).first) == 0);
  for (const double small : {0x1p-100, -0x1p-126}) {
    const auto [rows, cols] = rounded_with(small);
    CHECK(std::abs(rows(5, 7) / small - 1) < 0.01);
    CHECK(cols(7, 5) == rows(5, 7));
  }
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const auto [rows, cols] = rounded_with(bad);
    CHECK(all_nan(rows));
    CHECK(all_nan(cols));
  }
}

TEST_CASE("GPU products of matrices of 8 bits: forward, input and weight gradient", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  std::mt19937_64 random(std::random_device{}());
  struct Sizes {
    std::int64_t t, n, k;
  };
  for (const auto& [t, n, k] : {Sizes{256, 384, 512}, Sizes{300, 96, 160}, Sizes{33, 16, 48}, Sizes{1024, 128, 2048}}) {
    INFO(t << " tokens, " << k << " to " << n);
    LinearProducts linear{.x = random_values({t, k}, random, DType::bf16, 3),
                          .w = random_values({n, k}, random, DType::bf16, 0.02),
                          .dy = random_values({t, n}, random, DType::bf16, 1e-5),
                          .residual = random_values({t, n}, random, DType::bf16),
                          .old = random_values({n, k}, random, DType::f32, 1e-3),
                          .qx = make_fp8_matrix(rank, {t, k}, DType::e4m3),
                          .qw = make_fp8_matrix(rank, {n, k}, DType::e4m3),
                          .qdy = make_fp8_matrix(rank, {t, n}, DType::e5m2)};
    linear.run(team);
    const Values x = meant_by_scale(rank, linear.qx.rows, linear.qx.scale),
                 w = meant_by_scale(rank, linear.qw.rows, linear.qw.scale),
                 dy = meant_by_scale(rank, linear.qdy.rows, linear.qdy.scale);
    CHECK(relative_error(x, linear.x) < 0.05);
    CHECK(relative_error(dy, linear.dy) < 0.1);
    const Values forward = reference::matmul(MatmulKind::forward, x, w), of_weight = reference::weight_grad(dy, x);
    CHECK(relative_error(rank.get(linear.y), forward) < 4e-3);
    CHECK(relative_error(rank.get(linear.sum), plus(forward, linear.residual)) < 4e-3);
    CHECK(relative_error(rank.get(linear.dx), reference::matmul(MatmulKind::input_grad, dy, w)) < 4e-3);
    CHECK(relative_error(rank.get(linear.dw), of_weight) < 1e-3);
    CHECK(relative_error(rank.get(linear.added_dw), plus(linear.old, of_weight)) < 1e-3);
    CHECK(rank.bytes(linear.dw) == rank.bytes(linear.other_dw));
  }
}

struct ScatterSizes {
  int ranks;
  std::int64_t tokens, n;
};

// Compares fp8_matmul_scatter of all ranks with the sum of their products, each rank with columns of x and w of its own.
void check_summed_products(const OpsBackend& backend, const ScatterSizes& sizes, bool sequence_parallel) {
  const auto& [ranks, tokens, n] = sizes;
  std::mt19937_64 random(std::random_device{}());
  TestTeam team(backend, ranks);
  constexpr std::int64_t k = 160;
  struct Rank {
    Tensor x, w, sum, alone;
    Fp8Matrix qx, qw;
  };
  std::vector<Rank> all(static_cast<std::size_t>(ranks));
  const auto mine = [&](TestRank& r) -> Rank& { return all[static_cast<std::size_t>(r.rank())]; };
  const auto rows_of = [&](const Values& values, TestRank& r) {
    const TensorParallel tp = r.tp(sequence_parallel);
    const std::int64_t first = tp.shard_begin(tokens);
    return row_range(values, first, first + tp.shard_rows(tokens));
  };
  const Values residual = random_values({tokens, n}, random, DType::bf16);
  for (int rank = 0; rank < ranks; ++rank) {
    TestRank& r = team[rank];
    Rank& own = mine(r);
    own.x = r.put(random_values({tokens, k}, random, DType::bf16, 1 + 10 * rank), DType::bf16);
    own.w = r.put(random_values({n, k}, random, DType::bf16, 0.02), DType::bf16);
    own.qx = make_fp8_matrix(r, {tokens, k}, DType::e4m3), own.qw = make_fp8_matrix(r, {n, k}, DType::e4m3);
    own.sum = r.put(rows_of(residual, r), DType::bf16);
    own.alone = r.poisoned(own.sum.shape, DType::bf16);
  }
  team.run([&](TestRank& r) {
    const Rank& own = mine(r);
    r.ops().quantise({.x = own.x, .out = own.qx});
    r.ops().quantise({.x = own.w, .out = own.qw});
    const Fp8Operand a{own.qx.rows, own.qx.scale}, b{own.qw.rows, own.qw.scale};
    r.ops().fp8_matmul({.tp = r.tp(sequence_parallel), .a = a, .b = b, .addend = own.sum, .out = own.sum});
    r.ops().fp8_matmul({.tp = r.tp(sequence_parallel), .a = a, .b = b, .out = own.alone});
  });
  Values product({tokens, n});
  for (int rank = 0; rank < ranks; ++rank) {
    const Rank& own = mine(team[rank]);
    product = plus(product, reference::matmul(MatmulKind::forward, meant_by_scale(team[rank], own.qx.rows, own.qx.scale),
                                              meant_by_scale(team[rank], own.qw.rows, own.qw.scale)));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    TestRank& r = team[rank];
    CHECK(relative_error(r.get(mine(r).sum), rows_of(plus(product, residual), r)) < 8e-3);
    CHECK(relative_error(r.get(mine(r).alone), rows_of(product, r)) < 8e-3);
  }
}

TEST_CASE("GPU products of matrices of 8 bits, summed over ranks with scales of their own", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  // Small tensors travel by one kernel, large ones in pieces.
  for (const ScatterSizes& sizes : {ScatterSizes{2, 75, 96}, {2, 3000, 512}, {3, 300, 80}}) {
    if (backend->max_ranks() < sizes.ranks) {
      test::skip("there are fewer ranks than " + std::to_string(sizes.ranks));
      continue;
    }
    for (const bool sequence_parallel : {true, false}) {
      INFO(sizes.ranks << " ranks, " << sizes.tokens << " tokens, sequence parallel " << sequence_parallel);
      check_summed_products(*backend, sizes, sequence_parallel);
    }
  }
}

TEST_CASE("GPU norms and SwiGLU find the largest magnitude of what they write", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  std::mt19937_64 random(std::random_device{}());
  for (const Shape& shape : {Shape{300, 4096}, Shape{7, 96}, Shape{65, 256}, Shape{1, 16}}) {
    INFO(to_string(shape));
    const std::int64_t rows = shape[0], cols = shape[1];
    const auto put = [&](const Shape& of) { return rank.put(random_values(of, random, DType::bf16, 2), DType::bf16); };
    const auto made = [&](const Shape& of, DType type = DType::bf16) { return rank.poisoned(of, type); };
    const Tensor x = put(shape), weight = put({cols}), bias = put({cols}), gate_up = put({rows, 2 * cols}), dy = put(shape);
    const Tensor rms = made(shape), layer = made(shape), inner = made(shape), grad = made({rows, 2 * cols});
    const Tensor inv = made({rows}, DType::f32), mean = made({rows}, DType::f32);
    const Tensor weights = rank.put(random_values({rows}, random, DType::f32), DType::f32), dweights = made({rows}, DType::f32);
    const Tensor weighed = made(shape), weighed_grad = made({rows, 2 * cols});
    Tensor largest[6];
    for (Tensor& one : largest) one = made({1}, DType::f32);
    team.run([&](TestRank& r) {
      Ops& ops = r.ops();
      ops.rms_norm({.x = x, .weight = weight, .eps = 1e-5F, .y = rms, .inv_rms = inv, .largest = largest[0]});
      ops.layer_norm({.x = x,
                      .weight = weight,
                      .bias = bias,
                      .eps = 1e-5F,
                      .y = layer,
                      .mean = mean,
                      .inv_std = inv,
                      .largest = largest[1]});
      ops.swiglu({.gate_up = gate_up, .y = inner, .largest = largest[2]});
      ops.swiglu_backward({.dy = dy, .gate_up = gate_up, .dgate_up = grad, .largest = largest[3]});
      ops.swiglu({.gate_up = gate_up, .y = weighed, .largest = largest[4], .weights = weights});
      ops.weighed_swiglu_backward({.dy = dy,
                                   .gate_up = gate_up,
                                   .weights = weights,
                                   .dgate_up = weighed_grad,
                                   .dweights = dweights,
                                   .largest = largest[5]});
    });
    const Tensor* results[] = {&rms, &layer, &inner, &grad, &weighed, &weighed_grad};
    for (int i = 0; i < 6; ++i) CHECK(rank.get(largest[i]).data[0] == largest_of(rank.get(*results[i])));
  }
}

}  // namespace
}  // namespace pipetrain::testing
