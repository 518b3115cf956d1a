// Biases that other operations add or sum in the same pass, on every backend: those of matrix products, at sizes at which GPUs
// add them within the product and at others, and the column sums of the residual that a norm's backward reads.
#include <cmath>

#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

struct BiasSizes {
  std::int64_t tokens, out, in;
};
const std::vector<BiasSizes> bias_sizes{{1, 1, 1},    {3, 5, 7},      {16, 8, 8},      {33, 40, 129},
                                        {64, 48, 32}, {257, 200, 96}, {300, 264, 208}, {304, 256, 512}};

void check_bias_products(Bench& b, const BiasSizes& size) {
  const auto& [t, n, k] = size;
  INFO(t << " tokens, " << k << " to " << n);
  const Values x = b.draw({t, k}), w = b.draw({n, k}, 1 / std::sqrt(static_cast<double>(k)));
  const Values residual = b.draw({t, n}), bias = b.draw({n});
  const Tensor tx = b.put(x), tw = b.put(w), tr = b.put(residual), tb = b.put(bias);
  const Tensor y = b.poisoned({t, n}), sum = b.poisoned({t, n}), again = b.poisoned({t, n}), in_place = b.put(residual);
  b.team.run([&](TestRank& r) {
    const TensorParallel tp = r.tp(false);
    r.ops().gather_matmul({.tp = tp, .kind = MatmulKind::forward, .shard = tx, .w = tw, .full = tx, .out = y, .bias = tb});
    for (const Tensor& out : {sum, again})
      r.ops().matmul_scatter(
          {.tp = tp, .kind = MatmulKind::forward, .in = tx, .w = tw, .residual = tr, .out = out, .bias = tb});
    r.ops().matmul_scatter(
        {.tp = tp, .kind = MatmulKind::forward, .in = tx, .w = tw, .residual = in_place, .out = in_place, .bias = tb});
  });
  const Values expected = reference::add_bias(reference::matmul(MatmulKind::forward, x, w), bias);
  CHECK(relative_error(b.rank.get(y), expected) < b.tolerance);
  CHECK(relative_error(b.rank.get(sum), plus(expected, residual)) < b.tolerance);
  CHECK((b.rank.bytes(again) == b.rank.bytes(sum)));
  CHECK((b.rank.bytes(in_place) == b.rank.bytes(sum)));
}

// Compares with the gradients without the sums, whose bits must not change.
void check_residual_sums(Bench& b, const Shape& shape) {
  INFO(to_string(shape));
  const Values x = b.draw(shape), w = b.draw({shape[1]}), dy = b.draw(shape), residual = b.draw(shape);
  const Values zero(Shape{shape[1]}), old = b.draw_f32({shape[1]});
  const Tensor tx = b.put(x), tw = b.put(w), tdy = b.put(dy), tr = b.put(residual);
  const Tensor y = b.poisoned(shape), mean = b.rank.poisoned({shape[0]}, DType::f32);
  const Tensor inv_std = b.rank.poisoned({shape[0]}, DType::f32), sums = b.put_f32(old), sums_again = b.put_f32(old);
  struct Gradients {
    Tensor dx, dweight, dbias;
  };
  const auto make = [&] { return Gradients{b.poisoned(shape), b.put_f32(zero), b.put_f32(zero)}; };
  const Gradients plain = make(), summed = make(), again = make();
  b.team.run([&](TestRank& r) {
    r.ops().layer_norm({.x = tx, .weight = tw, .bias = tw, .eps = 1e-5F, .y = y, .mean = mean, .inv_std = inv_std});
    const auto backward = [&](const Gradients& to, const std::optional<Tensor>& residual_sums) {
      r.ops().layer_norm_backward({.dy = tdy,
                                   .x = tx,
                                   .weight = tw,
                                   .mean = mean,
                                   .inv_std = inv_std,
                                   .residual = tr,
                                   .dx = to.dx,
                                   .dweight = to.dweight,
                                   .dbias = to.dbias,
                                   .residual_sums = residual_sums});
    };
    backward(plain, {});
    backward(summed, sums);
    backward(again, sums_again);
  });
  CHECK(relative_error(b.rank.get(sums), plus(old, reference::column_sums(residual))) < statistics_tolerance);
  CHECK((b.rank.bytes(sums_again) == b.rank.bytes(sums)));
  for (const Gradients& other : {summed, again}) {
    CHECK((b.rank.bytes(other.dx) == b.rank.bytes(plain.dx)));
    CHECK((b.rank.bytes(other.dweight) == b.rank.bytes(plain.dweight)));
    CHECK((b.rank.bytes(other.dbias) == b.rank.bytes(plain.dbias)));
  }
}

TEST_CASE("products with a bias match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const BiasSizes& size : bias_sizes) check_bias_products(b, size);
  });
}

TEST_CASE("a norm's backward sums up its residual's columns, and changes nothing else", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 64}, Shape{5, 31}, Shape{77, 200}, Shape{300, 512}, Shape{513, 768}})
      check_residual_sums(b, shape);
  });
}

TEST_CASE("GPU biases on the way of products and norms of GPT-2's widths", "[gpu]") {
  if (ops_backends().size() < 2) {
    test::needs_gpus(0);
    return;
  }
  on_every_backend([](Bench& b) {
    if (b.rank.device().id().kind != DeviceKind::cuda || b.dtype == DType::f32) return;
    for (const BiasSizes& size : {BiasSizes{64, 2304, 768}, {64, 768, 3072}, {32, 4800, 1600}, {32, 1600, 6400}})
      check_bias_products(b, size);
    for (const Shape& shape : {Shape{2048, 768}, Shape{1000, 1600}, Shape{133, 8192}}) check_residual_sums(b, shape);
  });
}

}  // namespace
}  // namespace pipetrain::testing
