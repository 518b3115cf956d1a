// 8-bit matrices with scales of tiles and blocks on GPUs: their rounding bit by bit, their products compared with a
// double precision reference of the rounded operands, and values that they preserve but one scale a tensor loses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fp8.hpp"
#include "ops/cuda/gemm/fp8_gpu.hpp"

namespace pipetrain::testing {
namespace {

Fp8Matrix make_block_matrix(TestRank& rank, const Shape& shape, Fp8Scales scales) {
  Fp8Matrix matrix;
  matrix.scales = scales;
  matrix.rows = rank.poisoned(shape, DType::e4m3);
  matrix.cols = rank.poisoned({shape[1], round_up_to_fp8(shape[0])}, DType::e4m3);
  matrix.row_scales = rank.poisoned(fp8_scale_shape(scales, matrix.rows.shape), DType::f32);
  matrix.col_scales = rank.poisoned(fp8_scale_shape(scales, matrix.cols.shape), DType::f32);
  return matrix;
}

// Random numbers whose blocks of 128 x 128 differ in magnitude by up to 2^24.
Values uneven_values(const Shape& shape, std::mt19937_64& random, double deviation) {
  Values values = random_values(shape, random, DType::bf16, deviation);
  std::uniform_int_distribution<int> exponent(-20, 4);
  for (std::int64_t row = 0; row < shape[0]; row += fp8_block) {
    for (std::int64_t col = 0; col < shape[1]; col += fp8_block) {
      const double factor = std::ldexp(1.0, exponent(random));
      for (std::int64_t i = row; i < std::min(row + fp8_block, shape[0]); ++i) {
        for (std::int64_t j = col; j < std::min(col + fp8_block, shape[1]); ++j) values(i, j) *= factor;
      }
    }
  }
  return values;
}

// Returns the layout `cols` of x, with zeros at the end.
Values turned(const Values& x) {
  Values result({x.cols(), round_up_to_fp8(x.rows())});
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    for (std::int64_t col = 0; col < x.cols(); ++col) result(col, row) = x(row, col);
  }
  return result;
}

double scale_at(const Values& scales, Fp8Scales kind, std::int64_t row, std::int64_t col) {
  return kind == Fp8Scales::tiles ? scales(col / fp8_block, row) : scales(row / fp8_block, col / fp8_block);
}

// Returns the values of a layout's 8-bit numbers.
Values meant_by_blocks(TestRank& rank, const Fp8Operand& operand) {
  Values values = rank.get(operand.values);
  const Values scales = rank.get(operand.scale);
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    for (std::int64_t col = 0; col < values.cols(); ++col) values(row, col) *= scale_at(scales, operand.scales, row, col);
  }
  return values;
}

// Returns the first number or scale of a layout of `exact` that differs from the host's rounding; empty if there is none.
std::string first_wrong(TestRank& rank, const Values& exact, const Fp8Operand& operand) {
  const Values numbers = rank.get(operand.values), scales = rank.get(operand.scale);
  const std::int64_t height = operand.scales == Fp8Scales::tiles ? 1 : fp8_block;
  const std::int64_t behind = (exact.cols() + fp8_block - 1) / fp8_block;
  for (std::int64_t row = 0; operand.scales == Fp8Scales::blocks && row < scales.rows(); ++row) {
    for (std::int64_t col = behind; col < scales.cols(); ++col)
      if (scales(row, col) != 0) return fmt::format("scale {}, {} behind the last: {}", row, col, scales(row, col));
  }
  for (std::int64_t row = 0; row < exact.rows(); row += height) {
    for (std::int64_t col = 0; col < exact.cols(); col += fp8_block) {
      const std::int64_t last_row = std::min(row + height, exact.rows()), last_col = std::min(col + fp8_block, exact.cols());
      float largest = 0;
      for (std::int64_t i = row; i < last_row; ++i) {
        for (std::int64_t j = col; j < last_col; ++j) largest = std::max(largest, std::abs(static_cast<float>(exact(i, j))));
      }
      const float factor = largest == 0 ? 1.0F : 448.0F / largest;
      const double scale = scale_at(scales, operand.scales, row, col);
      if (!(std::abs(scale * factor - 1) < 1e-6))
        return fmt::format("scale of {}, {}: {}, not 1 / {}", row, col, scale, factor);
      for (std::int64_t i = row; i < last_row; ++i) {
        for (std::int64_t j = col; j < last_col; ++j) {
          const double expected = test::round_to_fp8(static_cast<float>(exact(i, j)) * factor, DType::e4m3);
          if (numbers(i, j) != expected) return fmt::format("number {}, {}: {}, not {}", i, j, numbers(i, j), expected);
        }
      }
    }
  }
  return "";
}

// Returns the first number that is far from its expected value, measured by their root mean square; empty if there is none.
std::string first_far(const Values& actual, const Values& expected) {
  double squares = 0;
  for (const double value : expected.data) squares += value * value;
  const double far = 0.1 * std::sqrt(squares / static_cast<double>(expected.data.size()));
  for (std::int64_t row = 0; row < expected.rows(); ++row) {
    for (std::int64_t col = 0; col < expected.cols(); ++col) {
      const double difference = std::abs(actual(row, col) - expected(row, col));
      if (!(difference <= far + 0.01 * std::abs(expected(row, col))))
        return fmt::format("{}, {}: {}, not {}", row, col, actual(row, col), expected(row, col));
    }
  }
  return "";
}

TEST_CASE("GPU rounding to 8 bits with scales of tiles and blocks, in both layouts", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  std::mt19937_64 random(std::random_device{}());
  for (const Shape& shape : {Shape{256, 256}, Shape{300, 400}, Shape{1, 16}, Shape{129, 1040}, Shape{17, 48}}) {
    for (const Fp8Scales scales : {Fp8Scales::tiles, Fp8Scales::blocks}) {
      INFO(to_string(shape) << (scales == Fp8Scales::tiles ? " tiles" : " blocks"));
      const Values x = uneven_values(shape, random, 1e-3);
      const Tensor tx = rank.put(x, DType::bf16);
      const Fp8Matrix both = make_block_matrix(rank, shape, scales), again = make_block_matrix(rank, shape, scales);
      Fp8Matrix only_rows = again, only_cols = again;
      only_rows.cols = only_rows.col_scales = {};
      only_cols.rows = only_cols.row_scales = {};
      team.run([&](TestRank& r) {
        for (const Fp8Matrix& out : {both, only_rows, only_cols}) r.ops().quantise({.x = tx, .out = out});
      });
      CHECK(first_wrong(rank, x, rows(both)) == "");
      CHECK(first_wrong(rank, turned(x), cols(both)) == "");
      for (const auto& [one, other] : {std::pair(both.rows, again.rows),
                                       {both.cols, again.cols},
                                       {both.row_scales, again.row_scales},
                                       {both.col_scales, again.col_scales}})
        CHECK(rank.bytes(one) == rank.bytes(other));
      CHECK(rank.guards_intact());
    }
  }
}

TEST_CASE("GPU rounding with scales of tiles and blocks makes NaN of those alone that are not finite", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    for (const Fp8Scales scales : {Fp8Scales::tiles, Fp8Scales::blocks}) {
      Values x({144, 272});
      x.data.assign(x.data.size(), 1);
      x(5, 130) = bad;
      const Tensor tx = rank.put(x, DType::bf16);
      const Fp8Matrix matrix = make_block_matrix(rank, x.shape, scales);
      team.run([&](TestRank& r) { r.ops().quantise({.x = tx, .out = matrix}); });
      const auto count_nan = [](const Values& values) {
        return std::count_if(values.data.begin(), values.data.end(), [](double value) { return std::isnan(value); });
      };
      const std::int64_t numbers = scales == Fp8Scales::tiles ? fp8_block : fp8_block * fp8_block;
      CHECK(count_nan(meant_by_blocks(rank, rows(matrix))) == numbers);
      CHECK(count_nan(meant_by_blocks(rank, cols(matrix))) == numbers);
    }
  }
}

TEST_CASE("GPU products with scales of tiles and blocks: forward, input and weight gradient", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  std::mt19937_64 random(std::random_device{}());
  struct Sizes {
    std::int64_t t, n, k;
  };
  for (const auto& [t, n, k] : {Sizes{256, 384, 512}, Sizes{1024, 128, 2048}, Sizes{300, 96, 160}, Sizes{36, 16, 48}}) {
    DYNAMIC_SECTION(t << " tokens, " << k << " to " << n) {
      LinearProducts linear{.x = uneven_values({t, k}, random, 3),
                            .w = uneven_values({n, k}, random, 0.02),
                            .dy = uneven_values({t, n}, random, 1e-3),
                            .residual = random_values({t, n}, random, DType::bf16),
                            .old = random_values({n, k}, random, DType::f32, 1e-3),
                            .qx = make_block_matrix(rank, {t, k}, Fp8Scales::tiles),
                            .qw = make_block_matrix(rank, {n, k}, Fp8Scales::blocks),
                            .qdy = make_block_matrix(rank, {t, n}, Fp8Scales::tiles)};
      linear.run(team);
      const auto product = [&](const Fp8Operand& a, const Fp8Operand& b) {
        return reference::matmul(MatmulKind::forward, meant_by_blocks(rank, a), meant_by_blocks(rank, b));
      };
      const Values forward = product(rows(linear.qx), rows(linear.qw));
      const Values of_weight = product(cols(linear.qdy), cols(linear.qx));
      const auto compare = [&](const char* what, const Tensor& actual, const Values& expected, double tolerance) {
        const Values values = rank.get(actual);
        INFO(what);
        CHECK(first_far(values, expected) == "");
        CHECK(relative_error(values, expected) < tolerance);
      };
      compare("forward", linear.y, forward, 4e-3);
      compare("forward, added to", linear.sum, plus(forward, linear.residual), 4e-3);
      compare("input gradient", linear.dx, product(rows(linear.qdy), cols(linear.qw)), 4e-3);
      compare("weight gradient", linear.dw, of_weight, 2e-3);
      compare("weight gradient, added to", linear.added_dw, plus(linear.old, of_weight), 2e-3);
      CHECK(rank.bytes(linear.dw) == rank.bytes(linear.other_dw));
    }
  }
}

TEST_CASE("GPU products with scales of tiles and blocks keep what one scale a tensor loses", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  TestRank& rank = team[0];
  std::mt19937_64 random(std::random_device{}());
  constexpr std::int64_t t = 256, n = 128, k = 512;
  Values x = random_values({t, k}, random, DType::bf16), w = random_values({n, k}, random, DType::bf16);
  const auto grow = [](Values& values, int by) {  // each 128 columns by as much more
    for (std::int64_t row = 0; row < values.rows(); ++row) {
      for (std::int64_t col = 0; col < k; ++col) values(row, col) *= std::ldexp(1.0, by * static_cast<int>(col / fp8_block));
    }
  };
  grow(x, -8), grow(w, 8);
  const Tensor tx = rank.put(x, DType::bf16), tw = rank.put(w, DType::bf16);
  const Tensor by_blocks = rank.poisoned({t, n}, DType::f32), by_tensor = rank.poisoned({t, n}, DType::f32);
  const Fp8Matrix tiles = make_block_matrix(rank, x.shape, Fp8Scales::tiles),
                  blocks = make_block_matrix(rank, w.shape, Fp8Scales::blocks);
  const auto whole = [&](const Shape& shape) {
    return Fp8Matrix{.rows = rank.poisoned(shape, DType::e4m3), .scale = rank.poisoned({2}, DType::f32)};
  };
  const Fp8Matrix all_x = whole(x.shape), all_w = whole(w.shape);
  team.run([&](TestRank& r) {
    r.ops().quantise({.x = tx, .out = tiles});
    r.ops().quantise({.x = tw, .out = blocks});
    r.ops().quantise({.x = tx, .out = all_x});
    r.ops().quantise({.x = tw, .out = all_w});
    r.ops().fp8_matmul({.a = rows(tiles), .b = rows(blocks), .out = by_blocks});
    r.ops().fp8_matmul({.a = {all_x.rows, all_x.scale}, .b = {all_w.rows, all_w.scale}, .out = by_tensor});
  });
  const Values exact = reference::matmul(MatmulKind::forward, x, w);
  CHECK(relative_error(rank.get(by_blocks), exact) < 0.06);
  CHECK(relative_error(rank.get(by_tensor), exact) > 0.5);
}

TEST_CASE("GPU products with scales of tiles and blocks, summed over ranks", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  constexpr int ranks = 2;
  if (backend->max_ranks() < ranks) return test::skip("there are fewer ranks than 2");
  std::mt19937_64 random(std::random_device{}());
  for (const bool sequence_parallel : {true, false}) {
    for (const std::int64_t tokens : {76, 3000}) {  // moved by one kernel; large enough to travel in pieces
      constexpr std::int64_t n = 512, k = 160;
      INFO(tokens << " tokens, sequence parallel " << sequence_parallel);
      TestTeam team(*backend, ranks);
      struct Rank {
        Tensor x, w, out;
        Fp8Matrix tiles, blocks;
      };
      std::vector<Rank> all(ranks);
      const auto mine = [&](TestRank& r) -> Rank& { return all[static_cast<std::size_t>(r.rank())]; };
      for (int rank = 0; rank < ranks; ++rank) {
        TestRank& r = team[rank];
        Rank& own = mine(r);
        own.x = r.put(uneven_values({tokens, k}, random, 1), DType::bf16);
        own.w = r.put(uneven_values({n, k}, random, 0.02), DType::bf16);
        own.tiles = make_block_matrix(r, {tokens, k}, Fp8Scales::tiles),
        own.blocks = make_block_matrix(r, {n, k}, Fp8Scales::blocks);
        own.out = r.poisoned({r.tp(sequence_parallel).shard_rows(tokens), n}, DType::bf16);
      }
      team.run([&](TestRank& r) {
        const Rank& own = mine(r);
        r.ops().quantise({.x = own.x, .out = own.tiles});
        r.ops().quantise({.x = own.w, .out = own.blocks});
        r.ops().fp8_matmul({.tp = r.tp(sequence_parallel), .a = rows(own.tiles), .b = rows(own.blocks), .out = own.out});
      });
      Values product({tokens, n});
      for (int rank = 0; rank < ranks; ++rank) {
        TestRank& r = team[rank];
        product = plus(product, reference::matmul(MatmulKind::forward, meant_by_blocks(r, rows(mine(r).tiles)),
                                                  meant_by_blocks(r, rows(mine(r).blocks))));
      }
      for (int rank = 0; rank < ranks; ++rank) {
        TestRank& r = team[rank];
        const std::int64_t first = r.tp(sequence_parallel).shard_begin(tokens);
        const Values expected = row_range(product, first, first + r.tp(sequence_parallel).shard_rows(tokens));
        CHECK(relative_error(r.get(mine(r).out), expected) < 8e-3);
      }
    }
  }
}

}  // namespace
}  // namespace pipetrain::testing
