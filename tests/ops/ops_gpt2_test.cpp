// GPT-2's operations on every backend of this machine, as ops_test.cpp does for the others.
#include <utility>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

// One column, fewer columns than a vector, odd numbers, and full blocks; hidden sizes of GPT-2.
const std::vector<Shape> gpt2_shapes{{1, 1}, {3, 5}, {5, 31}, {77, 200}, {9, 768}, {300, 512}, {40, 1600}};

TEST_CASE("LayerNorm and its gradient match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : gpt2_shapes) {
      INFO(to_string(shape));
      Values x = b.draw(shape);
      const Values w = b.draw({shape[1]}), bias = b.draw({shape[1]}), dy = b.draw(shape), residual = b.draw(shape);
      // With a mean far from 0 relative to the deviation, a careless variance loses its digits.
      for (std::int64_t col = 0; col < shape[1]; ++col) x(0, col) = rounded(x(0, col) / 4 + 8, b.dtype);
      const Values old = b.draw_f32({shape[1]});
      const Tensor tx = b.put(x), tw = b.put(w), tb = b.put(bias), tdy = b.put(dy), tr = b.put(residual), in_place = b.put(x);
      const Tensor y = b.poisoned(shape), mean = b.rank.poisoned({shape[0]}, DType::f32),
                   inv_std = b.rank.poisoned({shape[0]}, DType::f32);
      const Tensor dx = b.poisoned(shape), dx_sum = b.poisoned(shape);
      const Tensor dweight = b.put_f32(old), dweight3 = b.put_f32(old), dbias = b.put_f32(old), dbias3 = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().layer_norm({.x = tx, .weight = tw, .bias = tb, .eps = 1e-5F, .y = y, .mean = mean, .inv_std = inv_std});
        r.ops().layer_norm_backward(
            {.dy = tdy, .x = tx, .weight = tw, .mean = mean, .inv_std = inv_std, .dx = dx, .dweight = dweight, .dbias = dbias});
        for (const auto& [input, input_grad] : {std::pair(tx, dx_sum), std::pair(in_place, in_place)}) {
          r.ops().layer_norm_backward({.dy = tdy,
                                       .x = input,
                                       .weight = tw,
                                       .mean = mean,
                                       .inv_std = inv_std,
                                       .residual = tr,
                                       .dx = input_grad,
                                       .dweight = dweight3,
                                       .dbias = dbias3});
        }
      });
      const auto forward = reference::layer_norm(x, w, bias, 1e-5);
      const auto grads = reference::layer_norm_backward(dy, x, w, 1e-5);
      CHECK(relative_error(b.rank.get(y), forward.y) < b.tolerance);
      CHECK(relative_error(b.rank.get(mean), forward.mean) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(inv_std), forward.inv_std) < statistics_tolerance);
      CHECK((b.rank.bytes(in_place) == b.rank.bytes(dx_sum)));
      CHECK(relative_error(b.rank.get(dbias), plus(old, grads.dbias)) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(dbias3), plus(old, scaled(grads.dbias, 2))) < statistics_tolerance);
      if (shape[1] == 1) continue;  // one column is always its own mean: its gradients are rounding errors around 0
      CHECK(relative_error(b.rank.get(dx), grads.dx) < b.tolerance);
      CHECK(relative_error(b.rank.get(dx_sum), plus(grads.dx, residual)) < b.tolerance);
      CHECK(relative_error(b.rank.get(dweight), plus(old, grads.dweight)) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(dweight3), plus(old, scaled(grads.dweight, 2))) < statistics_tolerance);
    }
  });
}

TEST_CASE("GELU with its bias, and both gradients, match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : gpt2_shapes) {
      INFO(to_string(shape));
      Values x = b.draw(shape, 3);
      x(0, 0) = rounded(-60, b.dtype);  // far out, where the exponential under- and overflows
      x(shape[0] - 1, shape[1] - 1) = rounded(shape[1] > 1 ? 60 : 2, b.dtype);
      const Values bias = b.draw({shape[1]}), dy = b.draw(shape), old = b.draw_f32({shape[1]});
      const Tensor tx = b.put(x), tb = b.put(bias), tdy = b.put(dy);
      const Tensor y = b.poisoned(shape), dx = b.poisoned(shape), dbias = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().gelu(tx, tb, y);
        r.ops().gelu_backward({.dy = tdy, .x = tx, .bias = tb, .dx = dx, .dbias = dbias});
      });
      const Values expected = reference::gelu_backward(dy, x, bias);
      CHECK(relative_error(b.rank.get(y), reference::gelu(x, bias)) < b.tolerance);
      CHECK(relative_error(b.rank.get(dx), expected) < b.tolerance);
      // The sums are over fp32 values, before these were rounded to the activations' type.
      CHECK(relative_error(b.rank.get(dbias), plus(old, reference::column_sums(expected))) < statistics_tolerance);
    }
  });
}

TEST_CASE("biases and their gradients match the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : gpt2_shapes) {
      INFO(to_string(shape));
      const Values x = b.draw(shape), bias = b.draw({shape[1]}), old = b.draw_f32({shape[1]});
      const Tensor tx = b.put(x), ty = b.put(x), tb = b.put(bias), dbias = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().add_bias(ty, tb);
        r.ops().bias_grad(tx, dbias);
      });
      CHECK(relative_error(b.rank.get(ty), reference::add_bias(x, bias)) < b.tolerance);
      CHECK(relative_error(b.rank.get(dbias), plus(old, reference::column_sums(x))) < statistics_tolerance);
    }
  });
}

TEST_CASE("learned positions and their gradient match the reference", "[ops]") {
  struct Case {
    std::int64_t first, rows, sequence, positions, hidden;
  };
  on_every_backend([](Bench& b) {
    // All tokens of a microbatch; then ranks' shards, which begin anywhere and may end before the sequence does.
    for (const auto& [first, rows, sequence, positions, hidden] :
         {Case{0, 1, 1, 1, 1}, Case{0, 60, 20, 20, 30}, Case{7, 33, 10, 16, 200}, Case{45, 4, 30, 64, 768},
          Case{0, 300, 150, 200, 64}}) {
      INFO("tokens " << first << " to " << first + rows << " of sequences of " << sequence);
      const Values x = b.draw({rows, hidden}), table = b.draw({positions, hidden}), old = b.draw_f32({positions, hidden});
      const Tensor tx = b.put(x), ty = b.put(x), tt = b.put(table), dtable = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().add_positions({.first_token = first, .sequence = sequence, .table = tt, .x = ty});
        r.ops().positions_grad({.first_token = first, .sequence = sequence, .dy = tx, .dtable = dtable});
      });
      CHECK(relative_error(b.rank.get(ty), reference::add_positions(first, sequence, table, x)) < b.tolerance);
      const Values expected = plus(old, reference::positions_grad({first, sequence, positions}, x));
      CHECK(relative_error(b.rank.get(dtable), expected) < statistics_tolerance);
    }
  });
}

TEST_CASE("GPT-2's operations give the same bits again, whatever the number of threads", "[ops]") {
  for (const OpsBackend* backend : ops_backends()) {
    for (const DType dtype : backend->dtypes()) {
      INFO(backend->name() << " " << to_string(dtype));
      std::vector<std::vector<unsigned char>> first;
      for (const int threads : {1, 2, 3}) {
        TestTeam team(*backend, 1, threads);
        Bench b{team, team[0], dtype, backend->tolerance(dtype)};  // the same numbers each time
        const Shape shape{700, 768};
        const Tensor x = b.put(b.draw(shape)), dy = b.put(b.draw(shape)), w = b.put(b.draw({768})), bias = b.put(b.draw({768}));
        const Tensor mean = b.rank.poisoned({700}, DType::f32), inv_std = b.rank.poisoned({700}, DType::f32);
        const Tensor normed = b.poisoned(shape), dx = b.poisoned(shape), y = b.poisoned(shape), dgelu = b.poisoned(shape);
        const Values zero({768});
        const Tensor dweight = b.put_f32(zero), dbias = b.put_f32(zero), dbias2 = b.put_f32(zero), dbias3 = b.put_f32(zero);
        const Tensor dtable = b.put_f32(Values({128, 768}));
        team.run([&](TestRank& r) {
          r.ops().layer_norm({.x = x, .weight = w, .bias = bias, .eps = 1e-5F, .y = normed, .mean = mean, .inv_std = inv_std});
          r.ops().layer_norm_backward(
              {.dy = dy, .x = x, .weight = w, .mean = mean, .inv_std = inv_std, .dx = dx, .dweight = dweight, .dbias = dbias});
          r.ops().gelu(x, bias, y);
          r.ops().gelu_backward({.dy = dy, .x = x, .bias = bias, .dx = dgelu, .dbias = dbias2});
          r.ops().bias_grad(dy, dbias3);
          r.ops().positions_grad({.sequence = 100, .dy = dy, .dtable = dtable});
        });
        std::vector<std::vector<unsigned char>> results;
        for (const Tensor& result : {normed, dx, dweight, dbias, y, dgelu, dbias2, dbias3, dtable})
          results.push_back(b.rank.bytes(result));
        if (first.empty()) first = results;
        CHECK((results == first));
      }
    }
  }
}

}  // namespace
}  // namespace pipetrain::testing
