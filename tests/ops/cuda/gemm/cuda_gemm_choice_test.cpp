// Products of GPT-2's shapes whose algorithm comes from another shape's list (ops/cuda/gemm/gemm_choice.cpp), at full
// size: some of their elements are compared with double precision, and all of them with a second run.
#include <cmath>

#include "catch.hpp"
#include "ops/cuda/gemm/gemm_choice.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

// Random numbers that repeat after a prime number of elements, so that no two rows are alike: drawing all takes too long.
Values repeated(Bench& b, const Shape& shape, double deviation = 1) {
  const Values drawn = b.draw({10007}, deviation);
  Values values(shape);
  for (std::size_t i = 0; i < values.data.size(); ++i) values.data[i] = drawn.data[i % drawn.data.size()];
  return values;
}

// Compares 512 elements with element(row, column).
template <class Element>
void check_some(Bench& b, const Tensor& got, Element element) {
  const Values all = b.rank.get(got);
  Values some({512}), expected({512});
  for (std::int64_t i = 0; i < 512; ++i) {
    const std::int64_t row = (i * 7919 + 13) % all.rows(), col = (i * 104729 + 7) % all.cols();
    some.data[static_cast<std::size_t>(i)] = all(row, col);
    expected.data[static_cast<std::size_t>(i)] = element(row, col);
  }
  CHECK(relative_error(some, expected) < b.tolerance);
}

void check_biased(Bench& b, std::int64_t t, std::int64_t n, std::int64_t k) {
  INFO(t << " x " << n << " x " << k << ", bias");
  const Values x = repeated(b, {t, k}), w = repeated(b, {n, k}, 1 / std::sqrt(static_cast<double>(k))), bias = b.draw({n});
  const Tensor tx = b.put(x), tw = b.put(w), tb = b.put(bias), y = b.poisoned({t, n}), again = b.poisoned({t, n});
  b.team.run([&](TestRank& r) {
    for (const Tensor& out : {y, again})
      r.ops().gather_matmul(
          {.tp = r.tp(false), .kind = MatmulKind::forward, .shard = tx, .w = tw, .full = tx, .out = out, .bias = tb});
  });
  check_some(b, y, [&](std::int64_t row, std::int64_t col) {
    double sum = bias.data[static_cast<std::size_t>(col)];
    for (std::int64_t i = 0; i < k; ++i) sum += x(row, i) * w(col, i);
    return sum;
  });
  CHECK((b.rank.bytes(again) == b.rank.bytes(y)));
}

void check_weight_grad(Bench& b, std::int64_t n, std::int64_t k, std::int64_t t) {
  INFO("gradient of " << n << " x " << k << " over " << t);
  const Values dy = repeated(b, {t, n}), x = repeated(b, {t, k}), before = repeated(b, {n, k}, 100);
  const Tensor tdy = b.put(dy), tx = b.put(x), dw = b.put_f32(before), again = b.put_f32(before);
  b.team.run([&](TestRank& r) {
    for (const Tensor& out : {dw, again}) r.ops().weight_grad({.dy = tdy, .x = tx, .dw = out});
  });
  check_some(b, dw, [&](std::int64_t row, std::int64_t col) {
    double sum = before(row, col);
    for (std::int64_t i = 0; i < t; ++i) sum += dy(i, row) * x(i, col);
    return sum;
  });
  CHECK((b.rank.bytes(again) == b.rank.bytes(dw)));
}

TEST_CASE("GPU products with an algorithm of another shape's list", "[gpu]") {
  if (ops_backends().size() < 2) {
    test::needs_gpus(0);
    return;
  }
  on_every_backend([](Bench& b) {
    if (b.rank.device().id().kind != DeviceKind::cuda || b.dtype == DType::f32) return;
    const GemmShape down{.m = 8192, .n = 4800, .k = 1600, .product = Product::y, .in = b.dtype, .out = b.dtype, .bias = true};
    if (b.dtype == DType::bf16 && !cuda::gemm_choice(down, 0).of) test::skip("no such algorithm is chosen on this GPU");
    check_biased(b, 16384, 2304, 768);
    check_biased(b, 8192, 4800, 1600);
    check_weight_grad(b, 2304, 768, 16384);
  });
}

}  // namespace
}  // namespace pipetrain::testing
