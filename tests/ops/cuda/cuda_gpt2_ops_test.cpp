// GPT-2's operations on a GPU at shapes that fill it, against the double precision reference. The tests of every backend, with
// their many small shapes, run on GPUs too.
#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

TEST_CASE("GPU LayerNorm, GELU, biases and positions at full size, the same bits again", "[gpu]") {
  if (ops_backends().size() < 2) {
    test::needs_gpus(0);
    return;
  }
  on_every_backend([](Bench& b) {
    if (b.rank.device().id().kind != DeviceKind::cuda) return;
    for (const Shape& shape : {Shape{2000, 1600}, Shape{4096, 768}, Shape{301, 8192}, Shape{65, 16384}, Shape{1030, 3001}}) {
      INFO(to_string(shape));
      const std::int64_t rows = shape[0], cols = shape[1], sequence = rows / 3 + 1;
      const Values x = b.draw(shape), dy = b.draw(shape), residual = b.draw(shape), w = b.draw({cols}), bias = b.draw({cols});
      const Values table = b.draw({sequence, cols}), zero({cols}), zero_table({sequence, cols});
      const Tensor tx = b.put(x), tdy = b.put(dy), tr = b.put(residual), tw = b.put(w), tb = b.put(bias), tt = b.put(table);
      std::vector<std::vector<unsigned char>> first;
      for (int round = 0; round < 2; ++round) {
        const Tensor mean = b.rank.poisoned({rows}, DType::f32), inv_std = b.rank.poisoned({rows}, DType::f32);
        const Tensor normed = b.poisoned(shape), dx = b.poisoned(shape), y = b.poisoned(shape), dgelu = b.poisoned(shape);
        const Tensor biased = b.put(x), placed = b.put(x), dtable = b.put_f32(zero_table);
        const Tensor dweight = b.put_f32(zero), dbias = b.put_f32(zero), dbias2 = b.put_f32(zero), dbias3 = b.put_f32(zero);
        b.team.run([&](TestRank& r) {
          r.ops().layer_norm({.x = tx, .weight = tw, .bias = tb, .eps = 1e-5F, .y = normed, .mean = mean, .inv_std = inv_std});
          r.ops().layer_norm_backward({.dy = tdy,
                                       .x = tx,
                                       .weight = tw,
                                       .mean = mean,
                                       .inv_std = inv_std,
                                       .residual = tr,
                                       .dx = dx,
                                       .dweight = dweight,
                                       .dbias = dbias});
          r.ops().gelu(tx, tb, y);
          r.ops().gelu_backward({.dy = tdy, .x = tx, .bias = tb, .dx = dgelu, .dbias = dbias2});
          r.ops().add_bias(biased, tb);
          r.ops().bias_grad(tdy, dbias3);
          r.ops().add_positions(5, sequence, tt, placed);
          r.ops().positions_grad(5, sequence, tdy, dtable);
        });
        std::vector<std::vector<unsigned char>> results;
        for (const Tensor& one : {normed, dx, y, dgelu, biased, placed, dtable, dweight, dbias, dbias2, dbias3})
          results.push_back(b.rank.bytes(one));
        if (round == 1) {
          CHECK((results == first));
          continue;
        }
        first = results;
        const auto forward = reference::layer_norm(x, w, bias, 1e-5);
        const auto grads = reference::layer_norm_backward(dy, x, w, 1e-5);
        const Values gelu_grad = reference::gelu_backward(dy, x, bias);
        CHECK(relative_error(b.rank.get(normed), forward.y) < b.tolerance);
        CHECK(relative_error(b.rank.get(inv_std), forward.inv_std) < statistics_tolerance);
        CHECK(relative_error(b.rank.get(dx), plus(grads.dx, residual)) < b.tolerance);
        CHECK(relative_error(b.rank.get(dweight), grads.dweight) < statistics_tolerance);
        CHECK(relative_error(b.rank.get(dbias), grads.dbias) < statistics_tolerance);
        CHECK(relative_error(b.rank.get(y), reference::gelu(x, bias)) < b.tolerance);
        CHECK(relative_error(b.rank.get(dgelu), gelu_grad) < b.tolerance);
        CHECK(relative_error(b.rank.get(dbias2), reference::column_sums(gelu_grad)) < statistics_tolerance);
        CHECK(relative_error(b.rank.get(biased), reference::add_bias(x, bias)) < b.tolerance);
        CHECK(relative_error(b.rank.get(dbias3), reference::column_sums(dy)) < statistics_tolerance);
        CHECK(relative_error(b.rank.get(placed), reference::add_positions(5, sequence, table, x)) < b.tolerance);
        CHECK(relative_error(b.rank.get(dtable), reference::positions_grad(5, sequence, dy, sequence)) < statistics_tolerance);
      }
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
