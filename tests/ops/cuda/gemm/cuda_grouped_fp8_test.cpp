// Grouped products of experts in 8 bits on GPUs, compared with a double precision reference of the rounded operands.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "catch.hpp"
#include "ops/cuda/gemm/fp8_gpu.hpp"

namespace pipetrain::testing {
namespace {

struct ExpertSizes {
  std::int64_t n, k;
  std::vector<double> starts;  // the first row of each expert, then the number of rows that are used
  std::int64_t unused = 0;     // rows after these
};

// Returns the values of the 8-bit numbers.
Values meant(TestRank& rank, const Tensor& values, const Tensor& scale) {
  return scaled(rank.get(values), rank.get(scale).data[0]);
}

// Returns the product of the rows of each expert with its matrix.
Values grouped(MatmulKind kind, const ExpertSizes& size, const Values& rows, const Values& matrices) {
  const bool forward = kind == MatmulKind::forward;
  Values out({static_cast<std::int64_t>(size.starts.back()), forward ? size.n : size.k});
  for (std::size_t e = 0; e + 1 < size.starts.size(); ++e) {
    const auto begin = static_cast<std::int64_t>(size.starts[e]), end = static_cast<std::int64_t>(size.starts[e + 1]);
    if (begin == end) continue;
    const auto first = static_cast<std::int64_t>(e) * size.n;
    const Values part = reference::matmul(kind, row_range(rows, begin, end), row_range(matrices, first, first + size.n));
    std::copy(part.data.begin(), part.data.end(), out.data.begin() + begin * out.cols());
  }
  return out;
}

// The operands and results of one expert layer's matrix.
class ExpertProducts {
 public:
  ExpertProducts(TestTeam& team, const ExpertSizes& size, std::mt19937_64& random, bool of_one_sign = false)
      : team_(team), size_(size), used_(static_cast<std::int64_t>(size.starts.back())) {
    const std::int64_t rows = used_ + size.unused, experts = static_cast<std::int64_t>(size.starts.size()) - 1;
    Values offsets({experts + 1}), one({1});
    offsets.data = size.starts, one.data = {size.starts.back()};
    offsets_ = rank().put(offsets, DType::i32), used_rows_ = rank().put(one, DType::i32);
    const auto draw = [&](const Shape& shape, double deviation) {
      Values values = random_values(shape, random, DType::bf16, deviation);
      if (of_one_sign) {
        for (double& value : values.data) value = std::abs(value);
      }
      return values;
    };
    x_ = draw({rows, size.k}, 3), dy_ = draw({rows, size.n}, 1e-5), w_ = draw({experts * size.n, size.k}, 0.02);
    for (std::int64_t row = used_; row < rows; ++row) x_(row, 0) = dy_(row, 0) = std::nan("");
    bias_ = random_values({experts * size.n}, random, DType::bf16);
    qx_ = rows_of({rows, size.k}, DType::e4m3), qdy_ = rows_of({rows, size.n}, DType::e5m2);
    qw_ = rows_of(w_.shape, DType::e4m3), qw_.cols = rank().poisoned({size.k, round_up_to_fp8(w_.rows())}, DType::e4m3);
    for (Tensor* const out : {&y_, &biased_, &again_}) *out = rank().poisoned({rows, size.n}, DType::bf16);
    dx_ = rank().poisoned({rows, size.k}, DType::bf16);
  }

  void run() {
    const Tensor x = rank().put(x_, DType::bf16), dy = rank().put(dy_, DType::bf16), w = rank().put(w_, DType::bf16),
                 bias = rank().put(bias_, DType::bf16);
    team_.run([&](TestRank& r) {
      using enum MatmulKind;
      r.ops().quantise({.x = x, .out = qx_, .used = used_rows_});
      r.ops().quantise({.x = dy, .out = qdy_, .used = used_rows_});
      r.ops().quantise({.x = w, .out = qw_});
      for (const Tensor& out : {y_, again_})
        r.ops().grouped_fp8_matmul({.kind = forward, .in = rows(qx_), .w = rows(qw_), .offsets = offsets_, .out = out});
      r.ops().grouped_fp8_matmul({.kind = forward,
                                  .in = rows(qx_),
                                  .w = rows(qw_),
                                  .offsets = offsets_,
                                  .out = biased_,
                                  .bias = GroupedBias{.bias = bias}});
      r.ops().grouped_fp8_matmul({.kind = input_grad, .in = rows(qdy_), .w = cols(qw_), .offsets = offsets_, .out = dx_});
    });
  }

  void check() {
    const Values x = used(qx_.rows, qx_.scale), dy = used(qdy_.rows, qdy_.scale), w = meant(rank(), qw_.rows, qw_.scale);
    CHECK(relative_error(x, row_range(x_, 0, used_)) < 0.05);
    CHECK(relative_error(dy, row_range(dy_, 0, used_)) < 0.1);
    const Values forward = grouped(MatmulKind::forward, size_, x, w);
    Values with_bias = forward;
    for (std::size_t e = 0; e + 1 < size_.starts.size(); ++e) {
      for (auto row = static_cast<std::int64_t>(size_.starts[e]); row < static_cast<std::int64_t>(size_.starts[e + 1]); ++row) {
        for (std::int64_t col = 0; col < size_.n; ++col)
          with_bias(row, col) += bias_.data[e * static_cast<std::size_t>(size_.n) + static_cast<std::size_t>(col)];
      }
    }
    CHECK(relative_error(row_range(rank().get(y_), 0, used_), forward) < 3e-3);
    CHECK(relative_error(row_range(rank().get(biased_), 0, used_), with_bias) < 3e-3);
    CHECK(relative_error(row_range(rank().get(dx_), 0, used_), grouped(MatmulKind::input_grad, size_, dy, w)) < 3e-3);
    CHECK(rank().bytes(y_) == rank().bytes(again_));
    for (const Tensor& out : {y_, dx_}) {
      const Values all = rank().get(out);
      for (std::int64_t row = used_; row < all.rows(); ++row) CHECK(std::isnan(all(row, 0)));
    }
    CHECK(rank().guards_intact());
  }

 private:
  TestRank& rank() { return team_[0]; }
  Values used(const Tensor& values, const Tensor& scale) { return row_range(meant(rank(), values, scale), 0, used_); }
  Fp8Matrix rows_of(const Shape& shape, DType type) {
    return {.rows = rank().poisoned(shape, type), .scale = rank().poisoned({2}, DType::f32)};
  }

  TestTeam& team_;
  const ExpertSizes& size_;
  std::int64_t used_;
  Values x_, dy_, w_, bias_;
  Tensor offsets_, used_rows_, y_, again_, biased_, dx_;
  Fp8Matrix qx_, qdy_, qw_;
};

TEST_CASE("GPU grouped products of experts in 8 bits: forward, biased, and input gradient", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  std::mt19937_64 random(std::random_device{}());
  const ExpertSizes sizes[] = {{256, 128, {0, 128, 256}},
                               {384, 512, {0, 31, 31, 200, 300}},              // an expert without rows
                               {16, 48, {0, 1, 5, 70}, 60},                    // narrower than a tile, and rows that are unused
                               {272, 144, {0, 129, 193, 193, 321, 450}, 128},  // sizes of no whole tile
                               {1536, 256, {0, 0, 0, 700, 700}, 4},            // one expert has all rows
                               {96, 64, {0, 0, 0}, 32}};                       // no row at all
  for (const ExpertSizes& size : sizes) {
    INFO(size.k << " to " << size.n << ", " << size.starts.back() << " rows and " << size.unused << " unused");
    ExpertProducts products(team, size, random);
    products.run();
    if (size.starts.back() > 0) products.check();
  }
}

// With numbers of one sign a sum that keeps 14 bits would lose what is small beside it.
TEST_CASE("GPU grouped products in 8 bits add many numbers of one sign in fp32", "[gpu]") {
  const OpsBackend* backend = gpu_with_fp8();
  if (backend == nullptr) return;
  TestTeam team(*backend, 1);
  std::mt19937_64 random(std::random_device{}());
  const ExpertSizes size{4096, 4096, {0, 3, 40}};
  ExpertProducts products(team, size, random, true);
  products.run();
  products.check();
}

}  // namespace
}  // namespace pipetrain::testing
