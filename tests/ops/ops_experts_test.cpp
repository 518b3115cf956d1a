// The operations of routed experts against plain loops in double precision, and the router's gradient against differences.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "catch.hpp"
#include "core/error.hpp"
#include "ops/ops_bench.hpp"
#include "ops/routing_case.hpp"

namespace pipetrain::testing {
namespace {

constexpr RouterCase router_cases[] = {
    {1, 1, 1, 1, true}, {2, 9, 4, 1, false}, {3, 7, 8, 3, true}, {1, 40, 16, 4, false}, {2, 5, 36, 5, true}};

// The experts of one token, by descending logit, and the softmax of its logits.
struct Token {
  std::vector<std::int64_t> chosen;
  std::vector<double> probabilities;
  double log_sum_exp = 0;

  Token(const double* logits, const RouterCase& size) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(size.experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t x, std::int64_t y) { return logits[x] > logits[y]; });
    chosen.assign(order.begin(), order.begin() + size.chosen);
    std::sort(chosen.begin(), chosen.end());
    double sum = 0;
    for (std::int64_t e = 0; e < size.experts; ++e) sum += std::exp(logits[e]);
    for (std::int64_t e = 0; e < size.experts; ++e) probabilities.push_back(std::exp(logits[e]) / sum);
    log_sum_exp = std::log(sum);
  }
  double weight(std::int64_t expert, bool normalised) const {
    double sum = 1;
    if (normalised) {
      sum = 0;
      for (const std::int64_t one : chosen) sum += probabilities[static_cast<std::size_t>(one)];
    }
    return probabilities[static_cast<std::size_t>(expert)] / sum;
  }
};

// The weights' product with dweights, and both losses with their scales, for fixed choices and counts.
struct RouterObjective {
  const RouterCase& size;
  const Values& logits;                 // of the choices
  const std::vector<double>& dweights;  // by token and choice
  const Values& counts;
  double layers, balance_scale, z_scale;

  struct Sums {
    double weights = 0, balance = 0, z = 0;
  };
  Sums operator()(const Values& at) const {
    Sums sums;
    for (std::int64_t b = 0; b < size.batch; ++b) {
      double all = 0;
      for (std::int64_t e = 0; e < size.experts; ++e) all += counts(b, e);
      const double counted = all / static_cast<double>(size.chosen);
      for (std::int64_t t = b * size.sequence; t < (b + 1) * size.sequence; ++t) {
        Token token(at.at(t, 0), size);
        token.chosen = Token(logits.at(t, 0), size).chosen;
        for (std::int64_t c = 0; c < size.chosen; ++c)
          sums.weights += dweights[static_cast<std::size_t>(t * size.chosen + c)] *
                          token.weight(token.chosen[static_cast<std::size_t>(c)], size.normalised);
        for (std::int64_t e = 0; e < size.experts; ++e)
          sums.balance += static_cast<double>(size.experts) * counts(b, e) / counted *
                          token.probabilities[static_cast<std::size_t>(e)] / counted;
        sums.z += token.log_sum_exp * token.log_sum_exp / (counted / layers);
      }
    }
    return sums;
  }
  double total(const Values& at) const {
    const Sums sums = (*this)(at);
    return sums.weights + balance_scale * sums.balance + z_scale * sums.z;
  }
};

// The tensors of the operations on rows, which compute from x, w, dy and a residual.
struct RowResults {
  Tensor gathered, out, dx, sum, weighed, dw;
};

struct RowInputs {
  Values x, w, dy, residual;
};

// The results in plain loops.
struct ExpectedRows {
  Values gathered, out, dx, sum, weighed, dw;
};

ExpectedRows expected_rows(Bench& b, const RowInputs& in, const Routing& routing) {
  const std::int64_t rows = in.dy.rows(), inner = in.dy.cols(), hidden = in.x.cols();
  const Values tokens = b.rank.get(routing.tokens), offsets = b.rank.get(routing.offsets),
               weights = b.rank.get(routing.weights);
  ExpectedRows e{Values({rows, hidden}), Values({rows, inner}), Values({rows, hidden}), in.residual,
                 Values({rows, inner}),  Values(in.w.shape)};
  for (std::int64_t row = 0, expert = 0; row < rows; ++row) {
    while (whole(offsets.data[static_cast<std::size_t>(expert) + 1]) <= row) ++expert;
    const std::int64_t token = whole(tokens.data[static_cast<std::size_t>(row)]);
    const double weight = weights.data[static_cast<std::size_t>(row)];
    for (std::int64_t h = 0; h < hidden; ++h) e.gathered(row, h) = in.x(token, h);
    for (std::int64_t i = 0; i < inner; ++i) {
      for (std::int64_t h = 0; h < hidden; ++h) {
        e.out(row, i) += in.x(token, h) * in.w(expert * inner + i, h);
        e.dx(row, h) += in.dy(row, i) * in.w(expert * inner + i, h);
        e.dw(expert * inner + i, h) += 2 * in.dy(row, i) * in.x(token, h);
      }
      e.sum(token, i) += in.dy(row, i);
      e.weighed(row, i) = weight * in.dy(row, i);
    }
  }
  return e;
}

// With six experts every token goes to two of them, so that the others have no row.
void check_rows(Bench& b, const RouterCase& size, std::int64_t hidden, std::int64_t inner) {
  const std::int64_t rows = size.tokens() * size.chosen;
  Values logits = b.draw_f32({size.tokens(), size.experts});
  for (std::int64_t t = 0; size.experts == 6 && t < size.tokens(); ++t) logits(t, 1) = logits(t, 4) = 50;
  const RowInputs in{b.draw({size.tokens(), hidden}), b.draw({size.experts * inner, hidden}), b.draw({rows, inner}),
                     b.draw({size.tokens(), inner})};
  const Tensor router = b.put_f32(logits), xs = b.put(in.x), ws = b.put(in.w), dys = b.put(in.dy),
               residual = b.put(in.residual);
  const Routing routing = poisoned_routing(b, size);
  const RowResults to{b.poisoned({rows, hidden}),         b.poisoned({rows, inner}), b.poisoned({rows, hidden}),
                      b.poisoned({size.tokens(), inner}), b.poisoned({rows, inner}), b.rank.poisoned(in.w.shape, DType::f32)};
  b.team.run([&](TestRank& r) {
    Ops& ops = r.ops();
    ops.route({.logits = router, .normalised = size.normalised, .routing = routing});
    ops.gather_rows({.x = xs, .tokens = routing.tokens, .rows = to.gathered});
    ops.grouped_matmul({.kind = MatmulKind::forward, .in = to.gathered, .w = ws, .offsets = routing.offsets, .out = to.out});
    ops.grouped_matmul({.kind = MatmulKind::input_grad, .in = dys, .w = ws, .offsets = routing.offsets, .out = to.dx});
    for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes})
      ops.grouped_weight_grad({.dy = dys, .x = to.gathered, .offsets = routing.offsets, .dw = to.dw, .accumulate = accumulate});
    ops.weigh_rows({.x = dys, .weights = routing.weights, .y = to.weighed});
    ops.sum_rows({.rows = dys, .places = routing.places, .residual = residual, .out = to.sum});
  });
  const ExpectedRows expected = expected_rows(b, in, routing);
  CHECK(b.rank.get(to.gathered).data == expected.gathered.data);
  for (const auto& [tensor, values] : {std::pair{to.out, expected.out},
                                       {to.dx, expected.dx},
                                       {to.dw, expected.dw},
                                       {to.sum, expected.sum},
                                       {to.weighed, expected.weighed}})
    CHECK(relative_error(b.rank.get(tensor), values) < b.tolerance);
}

}  // namespace

TEST_CASE("a router chooses the experts with the largest logits and sorts the rows by expert, then by token",
          "[ops][experts]") {
  on_every_backend([](Bench& b) {
    std::vector<RouterCase> sizes(std::begin(router_cases), std::end(router_cases));
    sizes.push_back({2, 300, 72, 8, true});
    for (const RouterCase& size : sizes) {
      const Values logits = b.draw_f32({size.tokens(), size.experts});
      const Tensor in = b.put_f32(logits);
      const Routing routing = poisoned_routing(b, size);
      b.team.run([&](TestRank& r) { r.ops().route({.logits = in, .normalised = size.normalised, .routing = routing}); });
      const Values experts = b.rank.get(routing.experts), places = b.rank.get(routing.places),
                   tokens = b.rank.get(routing.tokens), weights = b.rank.get(routing.weights),
                   offsets = b.rank.get(routing.offsets), probabilities = b.rank.get(routing.probabilities),
                   log_sum_exp = b.rank.get(routing.log_sum_exp);
      std::int64_t row = 0;
      for (std::int64_t e = 0; e < size.experts; ++e) {
        CHECK(offsets.data[static_cast<std::size_t>(e)] == static_cast<double>(row));
        for (std::int64_t t = 0; t < size.tokens(); ++t) {
          const Token token(logits.at(t, 0), size);
          const auto found = std::find(token.chosen.begin(), token.chosen.end(), e);
          if (found == token.chosen.end()) continue;
          const auto choice = found - token.chosen.begin();
          CHECK(experts(t, choice) == static_cast<double>(e));
          CHECK(places(t, choice) == static_cast<double>(row));
          CHECK(tokens.data[static_cast<std::size_t>(row)] == static_cast<double>(t));
          CHECK(weights.data[static_cast<std::size_t>(row)] == Approx(token.weight(e, size.normalised)).epsilon(1e-6));
          ++row;
        }
      }
      CHECK(offsets.data.back() == static_cast<double>(row));
      for (std::int64_t t = 0; t < size.tokens(); ++t) {
        const Token token(logits.at(t, 0), size);
        CHECK(log_sum_exp.data[static_cast<std::size_t>(t)] == Approx(token.log_sum_exp).epsilon(1e-6).margin(1e-6));
        for (std::int64_t e = 0; e < size.experts; ++e)
          CHECK(probabilities(t, e) == Approx(token.probabilities[static_cast<std::size_t>(e)]).epsilon(1e-6));
      }
    }
  });
}

TEST_CASE("of equal logits the router takes the lowest experts, and logits that are not numbers end nothing",
          "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const RouterCase size{1, 2, 5, 2, true};
    Values logits({2, 5});
    logits(0, 4) = 1;
    for (std::int64_t e = 0; e < 5; ++e) logits(1, e) = std::nan("");
    const Tensor in = b.put_f32(logits);
    const Routing routing = poisoned_routing(b, size);
    b.team.run([&](TestRank& r) { r.ops().route({.logits = in, .normalised = true, .routing = routing}); });
    CHECK(b.rank.get(routing.experts).data == std::vector<double>{0, 4, 0, 1});
  });
}

TEST_CASE("the router's gradient is the derivative of its weights and of both losses", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    for (const RouterCase& size : router_cases) {
      const Values logits = b.draw_f32({size.tokens(), size.experts});
      const Tensor in = b.put_f32(logits), counts = b.rank.put(Values({size.batch, size.experts}), DType::i32);
      const Routing routing = poisoned_routing(b, size);
      const Values draws = b.draw_f32({size.tokens() * size.chosen});
      const Tensor dweights = b.put_f32(draws), dlogits = b.rank.poisoned(in.shape, DType::f32);
      const Tensor statistics = b.rank.put(Values({size.experts + 3}), DType::f64);
      const RouterLosses losses{.counts = counts, .layers = 2, .balance_scale = 0.7F, .z_scale = 0.3F};
      b.team.run([&](TestRank& r) {
        r.ops().route({.logits = in, .normalised = size.normalised, .routing = routing});
        r.ops().zero(counts);
        r.ops().zero(statistics);
        for (int layer = 0; layer < 2; ++layer) r.ops().count_experts({.experts = routing.experts, .counts = counts});
        r.ops().route_backward({.routing = routing,
                                .normalised = size.normalised,
                                .dweights = dweights,
                                .losses = losses,
                                .dlogits = dlogits,
                                .statistics = statistics});
      });
      const Values places = b.rank.get(routing.places), counted = b.rank.get(counts), found = b.rank.get(dlogits),
                   told = b.rank.get(statistics);
      std::vector<double> by_choice;
      for (const double place : places.data) by_choice.push_back(draws.data[static_cast<std::size_t>(whole(place))]);
      const RouterObjective objective{size, logits, by_choice, counted, 2, 0.7, 0.3};
      Values expected(logits.shape), moved = logits;
      for (std::size_t i = 0; i < logits.data.size(); ++i) {
        constexpr double step = 1e-4;
        moved.data[i] = logits.data[i] + step;
        const double above = objective.total(moved);
        moved.data[i] = logits.data[i] - step;
        expected.data[i] = (above - objective.total(moved)) / (2 * step);
        moved.data[i] = logits.data[i];
      }
      for (std::size_t i = 0; i < expected.data.size(); ++i)
        CHECK(found.data[i] == Approx(expected.data[i]).epsilon(1e-4).margin(1e-6));
      CHECK(told.data[static_cast<std::size_t>(size.experts)] == Approx(objective(logits).balance).epsilon(1e-6));
      CHECK(told.data[static_cast<std::size_t>(size.experts) + 1] == Approx(objective(logits).z).epsilon(1e-6).margin(1e-9));
      CHECK(std::accumulate(told.data.begin(), told.data.begin() + size.experts, 0.0) ==
            static_cast<double>(size.tokens() * size.chosen));
    }
  });
}

TEST_CASE("rows of experts are gathered, weighed, multiplied by their expert's matrix and summed", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    check_rows(b, {2, 9, 4, 1, false}, 8, 16);
    check_rows(b, {1, 300, 6, 2, true}, 160, 96);
    check_rows(b, {1, 330, 5, 2, true}, 64, 320);  // more rows and columns than a tile of a product has
  });
}

TEST_CASE("biases change the choice of experts alone", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const RouterCase size{1, 3, 4, 2, true};
    Values logits({3, 4}), biases({4});
    for (std::int64_t t = 0; t < 3; ++t) logits(t, t) = 2;
    biases.data = {0, 0, -1, 0.5};
    const Tensor in = b.put_f32(logits), bias = b.put_f32(biases);
    const Routing routing = poisoned_routing(b, size);
    b.team.run([&](TestRank& r) { r.ops().route({.logits = in, .normalised = true, .bias = bias, .routing = routing}); });
    CHECK(b.rank.get(routing.experts).data == std::vector<double>{0, 3, 1, 3, 0, 3});
    const double high = std::exp(2.0), weight = high / (high + 1);
    const std::vector<double> expected{weight, 0.5, weight, 1 - weight, 1 - weight, 0.5};  // sorted by expert
    const Values weights = b.rank.get(routing.weights);
    for (std::size_t row = 0; row < expected.size(); ++row) CHECK(weights.data[row] == Approx(expected[row]).epsilon(1e-6));
  });
}

TEST_CASE("an expert's capacity drops a sequence's later choices, which then have no row and no gradient", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const RouterCase size{2, 4, 3, 1, false};
    Values logits({8, 3});
    for (const std::int64_t t : {0, 1, 2, 3, 5, 7}) logits(t, 1) = 5;
    const Tensor in = b.put_f32(logits), dlogits = b.rank.poisoned(in.shape, DType::f32);
    const Tensor statistics = b.rank.put(Values({6}), DType::f64);
    const Routing routing = poisoned_routing(b, size);
    const Tensor dweights = b.put_f32(b.draw_f32({8})), rows = b.put(b.draw({8, 5})), sums = b.poisoned({8, 5});
    b.team.run([&](TestRank& r) {
      r.ops().zero(statistics);
      r.ops().route({.logits = in, .capacity = {2, 2}, .routing = routing});
      r.ops().route_backward({.routing = routing, .dweights = dweights, .dlogits = dlogits, .statistics = statistics});
      r.ops().sum_rows({.rows = rows, .places = routing.places, .out = sums});
    });
    CHECK(b.rank.get(routing.places).data == std::vector<double>{2, 3, -1, -1, 0, 4, 1, 5});
    CHECK(b.rank.get(routing.offsets).data == std::vector<double>{0, 2, 6, 6});
    CHECK(b.rank.get(statistics).data == std::vector<double>{2, 6, 0, 0, 0, 2});
    const Values gradient = b.rank.get(dlogits), summed = b.rank.get(sums), given = b.rank.get(rows);
    for (std::int64_t i = 0; i < 3; ++i) CHECK(gradient(2, i) == 0);
    for (std::int64_t i = 0; i < 5; ++i) {
      CHECK(summed(3, i) == 0);
      CHECK(summed(5, i) == Approx(given(4, i)).epsilon(1e-2));
    }
  });
}

TEST_CASE("an expert's numbers that are not finite stay among its own rows", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const std::int64_t hidden = 64, inner = 64, experts = 3, rows = 130;  // of 70, 0 and 60
    Values offsets({experts + 1}), dy = b.draw({rows, inner}), x = b.draw({rows, hidden});
    offsets.data = {0, 70, 70, 130};
    for (std::int64_t row = 70; row < rows; ++row) x(row, 5) = dy(row, 7) = std::nan("");
    const Tensor first = b.rank.put(offsets, DType::i32), ws = b.put(b.draw({experts * inner, hidden})), dys = b.put(dy),
                 xs = b.put(x), out = b.poisoned({rows, inner}), dw = b.rank.poisoned({experts * inner, hidden}, DType::f32);
    b.team.run([&](TestRank& r) {
      r.ops().grouped_matmul({.kind = MatmulKind::forward, .in = xs, .w = ws, .offsets = first, .out = out});
      r.ops().grouped_weight_grad({.dy = dys, .x = xs, .offsets = first, .dw = dw, .accumulate = Accumulate::no});
    });
    const Values outs = b.rank.get(out), grads = b.rank.get(dw);
    for (std::int64_t row = 0; row < rows; ++row) CHECK(std::isfinite(outs(row, 0)) == (row < 70));
    for (std::int64_t row = 0; row < 2 * inner; ++row) {
      CHECK(std::isfinite(grads(row, 0)));
      if (row >= inner) CHECK(grads(row, 3) == 0);
    }
    CHECK(std::isnan(grads(2 * inner, 5)));
    CHECK(std::isnan(grads(2 * inner + 7, 0)));
    CHECK(std::isfinite(grads(2 * inner, 0)));
  });
}

TEST_CASE("the gradients of matrices with thousands of rows have every element", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const std::int64_t hidden = 264, inner = 4232, experts = 2, rows = 5;  // of 3 and 2
    Values offsets({experts + 1});
    offsets.data = {0, 3, 5};
    const Values dy = b.draw({rows, inner}), x = b.draw({rows, hidden});
    const Tensor first = b.rank.put(offsets, DType::i32), dys = b.put(dy), xs = b.put(x),
                 dw = b.rank.poisoned({experts * inner, hidden}, DType::f32);
    b.team.run([&](TestRank& r) {
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes})
        r.ops().grouped_weight_grad({.dy = dys, .x = xs, .offsets = first, .dw = dw, .accumulate = accumulate});
    });
    Values expected({experts * inner, hidden});
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t matrix = row < 3 ? 0 : inner;
      for (std::int64_t i = 0; i < inner; ++i)
        for (std::int64_t j = 0; j < hidden; ++j) expected(matrix + i, j) += 2 * dy(row, i) * x(row, j);
    }
    CHECK(relative_error(b.rank.get(dw), expected) < b.tolerance);
  });
}

TEST_CASE("the operations of experts give the same bits again, whatever a product's other experts have to do",
          "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const std::int64_t hidden = 128, inner = 192, experts = 4;
    const auto results = [&](const std::vector<double>& starts, const Values& x, const Values& dy, const Values& w) {
      Values offsets({experts + 1});
      offsets.data = starts;
      const auto rows = static_cast<std::int64_t>(starts.back());
      const Tensor first = b.rank.put(offsets, DType::i32), xs = b.put(x), dys = b.put(dy), ws = b.put(w),
                   out = b.poisoned({rows, inner}), dx = b.poisoned({rows, hidden}),
                   dw = b.rank.put(Values({experts * inner, hidden}), DType::f32);
      b.team.run([&](TestRank& r) {
        r.ops().zero(dw);
        r.ops().grouped_matmul({.kind = MatmulKind::forward, .in = xs, .w = ws, .offsets = first, .out = out});
        r.ops().grouped_matmul({.kind = MatmulKind::input_grad, .in = dys, .w = ws, .offsets = first, .out = dx});
        r.ops().grouped_weight_grad({.dy = dys, .x = xs, .offsets = first, .dw = dw});
      });
      return std::tuple{b.rank.bytes(out), b.rank.bytes(dx), b.rank.bytes(dw)};
    };
    const Values x = b.draw({300, hidden}), dy = b.draw({300, inner}), w = b.draw({experts * inner, hidden});
    const auto all = results({0, 150, 150, 280, 300}, x, dy, w);
    CHECK((results({0, 150, 150, 280, 300}, x, dy, w) == all));
    // The first expert's rows alone.
    const auto one = results({0, 150, 150, 150, 150}, row_range(x, 0, 150), row_range(dy, 0, 150), w);
    CHECK(std::equal(std::get<0>(one).begin(), std::get<0>(one).end(), std::get<0>(all).begin()));
    CHECK(std::equal(std::get<1>(one).begin(), std::get<1>(one).end(), std::get<1>(all).begin()));
    const auto of_expert = static_cast<std::ptrdiff_t>(inner * hidden) * 4;
    CHECK(std::equal(std::get<2>(one).begin(), std::get<2>(one).begin() + of_expert, std::get<2>(all).begin()));
  });
}

}  // namespace pipetrain::testing
