// The operations of ranks that divide the experts, against plain loops.
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "ops/routing_case.hpp"

namespace pipetrain::testing {

TEST_CASE("ranks that divide the experts send each token once to each of them, and rows come back by expert",
          "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const RouterCase size{1, 3, 6, 3, false};
    const std::int64_t ranks = 2, sent = size.tokens() * ranks;
    const Routing routing = poisoned_routing(b, size);
    const auto numbers = [&](const Shape& shape) { return b.rank.poisoned(shape, DType::i32); };
    const SentTokens to{numbers({sent}), numbers({sent, 3}), b.rank.poisoned({sent, 3}, DType::f32), numbers({ranks + 1}),
                        numbers({3, 3})};
    // The tokens' experts are 0 4 5, 0 1 2 and 1 2 3.
    Values logits({3, 6});
    for (const auto& [token, expert] : {std::pair{0, 0}, {0, 4}, {0, 5}, {1, 0}, {1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 3}})
      logits(token, expert) = 1 + token;
    const Tensor in = b.put_f32(logits);
    const ReceivedRows rows{numbers({9}), b.rank.poisoned({9}, DType::f32), numbers({4}), numbers({9}), numbers({ranks + 1})};
    Values from({ranks + 1});
    from.data = {0, 2, 3};  // as if rank 0 received its own first two tokens, and the third from rank 1
    const Tensor offsets = b.rank.put(from, DType::i32);
    b.team.run([&](TestRank& r) {
      r.ops().route({.logits = in, .routing = routing});
      r.ops().send_tokens({.routing = routing, .sent = to});
      r.ops().sort_received({.experts = to.experts, .weights = to.weights, .offsets = offsets, .rows = rows});
    });
    const auto first = [](const Values& values, std::size_t count) {
      return std::vector<double>(values.data.begin(), values.data.begin() + static_cast<std::ptrdiff_t>(count));
    };
    CHECK(b.rank.get(to.offsets).data == std::vector<double>{0, 3, 5});
    CHECK(first(b.rank.get(to.tokens), 5) == std::vector<double>{0, 1, 2, 0, 2});
    CHECK(first(b.rank.get(to.experts), 15) == std::vector<double>{0, -1, -1, 0, 1, 2, 1, 2, -1, 1, 2, -1, 0, -1, -1});
    CHECK(b.rank.get(to.places).data == std::vector<double>{0, 6, 7, 1, 2, 3, 4, 5, 8});
    CHECK(b.rank.get(rows.offsets).data == std::vector<double>{0, 2, 4, 6});
    CHECK(first(b.rank.get(rows.tokens), 6) == std::vector<double>{0, 1, 1, 2, 1, 2});
    CHECK(first(b.rank.get(rows.returned), 6) == std::vector<double>{0, 1, 2, 4, 3, 5});
    CHECK(b.rank.get(rows.return_offsets).data == std::vector<double>{0, 4, 6});
  });
}

namespace {

using Numbers = std::vector<std::int64_t>;

Numbers numbers_of(Bench& b, const Tensor& tensor, std::size_t count) {
  Numbers numbers;
  for (const double value : b.rank.get(tensor).data) numbers.push_back(whole(value));
  numbers.resize(count);
  return numbers;
}

// The tokens that a rank sends, in plain loops over its routing.
struct ExpectedSent {
  Numbers tokens, experts, offsets{0}, places;
  std::vector<double> weights;

  ExpectedSent(Bench& b, const Routing& routing, const RouterCase& size, std::int64_t ranks)
      : places(static_cast<std::size_t>(size.tokens() * size.chosen), -1) {
    const Values chosen = b.rank.get(routing.experts), rows = b.rank.get(routing.places), factors = b.rank.get(routing.weights);
    const std::int64_t of_rank = size.experts / ranks;
    std::int64_t back = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (std::int64_t token = 0; token < size.tokens(); ++token) {
        std::vector<std::pair<std::int64_t, double>> own;
        for (std::int64_t c = 0; c < size.chosen; ++c) {
          if (whole(chosen(token, c)) / of_rank != rank || rows(token, c) < 0) continue;
          own.emplace_back(whole(chosen(token, c)) % of_rank, factors.data[static_cast<std::size_t>(whole(rows(token, c)))]);
          places[static_cast<std::size_t>(token * size.chosen + c)] = back++;
        }
        if (own.empty()) continue;
        tokens.push_back(token);
        own.resize(static_cast<std::size_t>(size.chosen), {-1, 0});
        for (const auto& [expert, weight] : own) experts.push_back(expert), weights.push_back(weight);
      }
      offsets.push_back(std::ssize(tokens));
    }
  }
};

}  // namespace

TEST_CASE("the orders of tokens that are sent and of rows that are received follow from the routing alone", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const RouterCase size{2, 340, 12, 3, false};
    const std::int64_t ranks = 4, chosen = size.chosen, sent = size.tokens() * chosen, most = sent + 17;
    const auto numbers = [&](const Shape& shape) { return b.rank.poisoned(shape, DType::i32); };
    const Routing routing = poisoned_routing(b, size);
    const Tensor in = b.put_f32(b.draw_f32({size.tokens(), size.experts}));
    const SentTokens to{numbers({most}), numbers({most, chosen}), b.rank.poisoned({most, chosen}, DType::f32),
                        numbers({ranks + 1}), numbers({size.tokens(), chosen})};
    const ReceivedRows rows{numbers({most * chosen}), b.rank.poisoned({most * chosen}, DType::f32),
                            numbers({size.experts / ranks + 1}), numbers({most * chosen}), numbers({ranks + 1})};
    // The receiver gets the same tokens as if they came from four ranks.
    b.team.run([&](TestRank& r) {
      r.ops().route({.logits = in, .capacity = {size.batch, 90}, .routing = routing});
      r.ops().send_tokens({.routing = routing, .sent = to});
      r.ops().sort_received({.experts = to.experts, .weights = to.weights, .offsets = to.offsets, .rows = rows});
    });
    const ExpectedSent expected(b, routing, size, ranks);
    CHECK(numbers_of(b, to.offsets, expected.offsets.size()) == expected.offsets);
    CHECK((numbers_of(b, to.tokens, expected.tokens.size()) == expected.tokens));
    CHECK((numbers_of(b, to.experts, expected.experts.size()) == expected.experts));
    CHECK((numbers_of(b, to.places, expected.places.size()) == expected.places));
    const Values weights = b.rank.get(to.weights);
    CHECK(std::equal(expected.weights.begin(), expected.weights.end(), weights.data.begin()));
    // Rows sorted by expert, then by token; they go back by token, then by expert.
    Numbers tokens, offsets{0}, returned(expected.experts.size(), -1), back{0};
    std::vector<double> factors;
    for (std::int64_t expert = 0; expert < size.experts / ranks; ++expert) {
      for (std::size_t i = 0; i < expected.experts.size(); ++i) {
        if (expected.experts[i] != expert) continue;
        returned[i] = std::ssize(tokens);
        tokens.push_back(static_cast<std::int64_t>(i) / chosen);
        factors.push_back(expected.weights[i]);
      }
      offsets.push_back(std::ssize(tokens));
    }
    for (std::size_t rank = 1; rank < expected.offsets.size(); ++rank)
      back.push_back(std::ssize(tokens) - std::count_if(returned.begin() + expected.offsets[rank] * chosen, returned.end(),
                                                        [](std::int64_t row) { return row >= 0; }));
    std::erase(returned, -1);
    CHECK(numbers_of(b, rows.offsets, offsets.size()) == offsets);
    CHECK(numbers_of(b, rows.return_offsets, back.size()) == back);
    CHECK((numbers_of(b, rows.tokens, tokens.size()) == tokens));
    CHECK((numbers_of(b, rows.returned, returned.size()) == returned));
    const Values found = b.rank.get(rows.weights);
    CHECK(std::equal(factors.begin(), factors.end(), found.data.begin()));
  });
}

TEST_CASE("what an exchange that was aborted leaves behind becomes no index", "[ops][experts][gpu]") {
  on_gpu([](Bench& b) {
    const std::int64_t ranks = 2, experts = 8, chosen = 4, most = 200;
    const auto numbers = [&](const Shape& shape) { return b.rank.poisoned(shape, DType::i32); };
    std::mt19937 random(7);
    std::uniform_int_distribution<int> any(-2'000'000'000, 2'000'000'000), near(-3, 12);
    for (const bool far : {true, false}) {
      Values of_tokens({most, chosen}), from({ranks + 1});
      for (double& expert : of_tokens.data) expert = far ? any(random) : near(random);
      from.data = far ? std::vector<double>{-1e9, 1e9, 1.5e9} : std::vector<double>{0, 70, 190};
      const ReceivedRows rows{numbers({most * chosen}), b.rank.poisoned({most * chosen}, DType::f32), numbers({experts + 1}),
                              numbers({most * chosen}), numbers({ranks + 1})};
      const Tensor in = b.rank.put(of_tokens, DType::i32), offsets = b.rank.put(from, DType::i32),
                   weights = b.put_f32(b.draw_f32({most, chosen}));
      b.team.run(
          [&](TestRank& r) { r.ops().sort_received({.experts = in, .weights = weights, .offsets = offsets, .rows = rows}); });
      const Values found = b.rank.get(rows.offsets), back = b.rank.get(rows.return_offsets);
      const double count = found.data.back();
      CHECK((count >= 0 && count <= static_cast<double>(most * chosen)));
      for (const double place : back.data) CHECK((place >= 0 && place <= count));
      for (const std::int64_t row : numbers_of(b, rows.returned, static_cast<std::size_t>(count)))
        CHECK((row >= 0 && row < static_cast<std::int64_t>(count)));
      for (const std::int64_t token : numbers_of(b, rows.tokens, static_cast<std::size_t>(count)))
        CHECK((token >= 0 && token < most));
    }
  });
}

TEST_CASE("rows that only the device counts are the first ones, and the others stay as they are", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    const std::int64_t rows = 70, cols = 48, used = 33;
    Values places({rows}), number({1});
    for (std::int64_t row = 0; row < rows; ++row)
      places.data[static_cast<std::size_t>(row)] = static_cast<double>(rows - 1 - row);
    number.data[0] = static_cast<double>(used);
    const Tensor tokens = b.rank.put(places, DType::i32), count = b.rank.put(number, DType::i32);
    const Tensor x = b.put(b.draw({rows, 2 * cols})), dy = b.put(b.draw({rows, cols})), weights = b.put_f32(b.draw_f32({rows}));
    const auto results = [&](const Tensor& limit) {
      const std::vector<Tensor> to{b.poisoned({rows, 2 * cols}), b.poisoned({rows, cols}),
                                   b.poisoned({rows, 2 * cols}), b.rank.poisoned({rows}, DType::f32),
                                   b.poisoned({rows, cols}),     b.poisoned({rows, 2 * cols}),
                                   b.poisoned({rows, cols})};
      b.team.run([&](TestRank& r) {
        r.ops().gather_rows({.x = x, .tokens = tokens, .rows = to[0], .used = limit});
        r.ops().weigh_rows({.x = dy, .weights = weights, .y = to[1], .used = limit});
        r.ops().weighed_swiglu_backward(
            {.dy = dy, .gate_up = x, .weights = weights, .dgate_up = to[2], .dweights = to[3], .used = limit});
        r.ops().swiglu({.gate_up = x, .y = to[4], .used = limit});
        r.ops().swiglu_backward({.dy = dy, .gate_up = x, .dgate_up = to[5], .used = limit});
        r.ops().swiglu({.gate_up = x, .y = to[6], .used = limit, .weights = weights});
      });
      return to;
    };
    const auto some = results(count), all = results({});
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto found = b.rank.bytes(some[i]), whole = b.rank.bytes(all[i]);
      const Tensor untouched =
          some[i].dtype == DType::f32 ? b.rank.poisoned(some[i].shape, DType::f32) : b.poisoned(some[i].shape);
      const auto poison = b.rank.bytes(untouched);
      const auto first = static_cast<std::ptrdiff_t>(found.size()) / rows * used;
      CHECK(std::equal(found.begin(), found.begin() + first, whole.begin()));
      CHECK(std::equal(found.begin() + first, found.end(), poison.begin() + first));
    }
  });
}

}  // namespace pipetrain::testing
