// The operations that communicate, on two to four ranks with uneven shards, compared with one rank in double precision.
#include <random>

#include "catch.hpp"
#include "ops/ops_fixture.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

struct Layout {
  TestTeam& team;
  bool sequence_parallel;
  DType dtype;
  double tolerance;
  std::mt19937_64 random{99};

  Values draw(const Shape& shape) { return random_values(shape, random, dtype); }
  std::int64_t begin(int rank, std::int64_t tokens) { return team[rank].tp(sequence_parallel).shard_begin(tokens); }
  std::int64_t rows(int rank, std::int64_t tokens) { return team[rank].tp(sequence_parallel).shard_rows(tokens); }
  // Returns this rank's rows of a tensor that is sharded over tokens under sequence parallelism.
  Values shard(const Values& values, int rank) {
    const std::int64_t from = begin(rank, values.rows());
    return row_range(values, from, from + rows(rank, values.rows()));
  }
  // Makes one tensor for each rank by `make(rank)`.
  template <class Make>
  std::vector<Tensor> each(Make make) {
    std::vector<Tensor> tensors;
    for (int rank = 0; rank < team.size(); ++rank) tensors.push_back(make(rank));
    return tensors;
  }
  std::vector<Tensor> put_shards(const Values& values) {
    return each([&](int rank) { return team[rank].put(shard(values, rank), dtype); });
  }
  std::vector<Tensor> poisoned_shards(std::int64_t tokens, std::int64_t cols) {
    return each([&](int rank) { return team[rank].poisoned({rows(rank, tokens), cols}, dtype); });
  }
  void check_shards(const std::vector<Tensor>& tensors, const Values& expected) {
    for (int rank = 0; rank < team.size(); ++rank) {
      INFO("rank " << rank);
      const Values part = shard(expected, rank);
      if (part.rows() == 0) continue;
      CHECK(relative_error(team[rank].get(tensors[static_cast<std::size_t>(rank)]), part) < tolerance);
    }
  }
};

const Tensor& mine(const std::vector<Tensor>& tensors, const TestRank& rank) {
  return tensors[static_cast<std::size_t>(rank.rank())];
}

void on_every_layout(const std::function<void(Layout&)>& check) {
  for (const OpsBackend* backend : ops_backends()) {
    for (const DType dtype : backend->dtypes()) {
      for (int ranks = 2; ranks <= backend->max_ranks(); ++ranks) {
        for (const bool sequence_parallel : {false, true}) {
          INFO(backend->name() << " " << to_string(dtype) << ", " << ranks << " ranks, sequence parallel "
                               << sequence_parallel);
          TestTeam team(*backend, ranks);
          Layout layout{team, sequence_parallel, dtype, backend->tolerance(dtype)};
          check(layout);
        }
      }
    }
  }
}

constexpr std::int64_t hidden_size = 40, inner_size = 36;  // inner columns are cut over 2, 3 or 4 ranks

// Returns each rank's part of a matrix with inner_size rows, or columns.
std::vector<Tensor> put_rows(Layout& l, const Values& values) {
  const RowSplit cut(inner_size, l.team.size());
  return l.each([&](int r) { return l.team[r].put(row_range(values, cut.begin(r), cut.end(r)), l.dtype); });
}
std::vector<Tensor> put_cols(Layout& l, const Values& values) {
  const RowSplit cut(inner_size, l.team.size());
  return l.each([&](int r) { return l.team[r].put(col_range(values, cut.begin(r), cut.end(r)), l.dtype); });
}

void check_gathered_products(Layout& l, std::int64_t tokens) {
  const Values x = l.draw({tokens, hidden_size}), w = l.draw({inner_size, hidden_size}), w2 = l.draw({hidden_size, inner_size});
  const RowSplit cut(inner_size, l.team.size());
  const auto shard_x = l.put_shards(x), tw = put_rows(l, w), tw2 = put_cols(l, w2);
  // Without sequence parallelism the gathered matrix may be the shard itself.
  const auto full = l.each([&](int r) {
    const auto i = static_cast<std::size_t>(r);
    return l.sequence_parallel ? l.team[r].poisoned({tokens, hidden_size}, l.dtype) : shard_x[i];
  });
  const auto column = l.each([&](int r) { return l.team[r].poisoned({tokens, cut.count(r)}, l.dtype); });
  const auto row_backward = l.each([&](int r) { return l.team[r].poisoned({tokens, cut.count(r)}, l.dtype); });
  l.team.run([&](TestRank& r) {
    const TensorParallel tp = r.tp(l.sequence_parallel);
    r.ops().gather_matmul({.tp = tp,
                           .kind = MatmulKind::forward,
                           .shard = mine(shard_x, r),
                           .w = mine(tw, r),
                           .full = mine(full, r),
                           .out = mine(column, r)});
    r.ops().gather_matmul({.tp = tp,
                           .kind = MatmulKind::input_grad,
                           .shard = mine(shard_x, r),
                           .w = mine(tw2, r),
                           .full = mine(full, r),
                           .out = mine(row_backward, r)});
  });
  const Values forward = reference::matmul(MatmulKind::forward, x, w);
  const Values backward = reference::matmul(MatmulKind::input_grad, x, w2);
  for (int rank = 0; rank < l.team.size(); ++rank) {
    INFO("rank " << rank);
    const auto i = static_cast<std::size_t>(rank);
    CHECK(relative_error(l.team[rank].get(column[i]), col_range(forward, cut.begin(rank), cut.end(rank))) < l.tolerance);
    CHECK(relative_error(l.team[rank].get(row_backward[i]), col_range(backward, cut.begin(rank), cut.end(rank))) < l.tolerance);
    CHECK(relative_error(l.team[rank].get(full[i]), x) == 0);
  }
}

void check_scattered_products(Layout& l, std::int64_t tokens) {
  const Values wide = l.draw({tokens, inner_size}), residual = l.draw({tokens, hidden_size});
  const Values w = l.draw({inner_size, hidden_size}), w2 = l.draw({hidden_size, inner_size});
  const auto twide = put_cols(l, wide), tw = put_rows(l, w), tw2 = put_cols(l, w2);
  const auto shard_residual = l.put_shards(residual), in_place = l.put_shards(residual);
  const auto plain = l.poisoned_shards(tokens, hidden_size), sum = l.poisoned_shards(tokens, hidden_size);
  const auto column_backward = l.poisoned_shards(tokens, hidden_size);
  l.team.run([&](TestRank& r) {
    const TensorParallel tp = r.tp(l.sequence_parallel);
    r.ops().matmul_scatter(
        {.tp = tp, .kind = MatmulKind::forward, .in = mine(twide, r), .w = mine(tw2, r), .out = mine(plain, r)});
    r.ops().matmul_scatter({.tp = tp,
                            .kind = MatmulKind::forward,
                            .in = mine(twide, r),
                            .w = mine(tw2, r),
                            .residual = mine(shard_residual, r),
                            .out = mine(sum, r)});
    r.ops().matmul_scatter({.tp = tp,
                            .kind = MatmulKind::forward,
                            .in = mine(twide, r),
                            .w = mine(tw2, r),
                            .residual = mine(in_place, r),
                            .out = mine(in_place, r)});
    r.ops().matmul_scatter(
        {.tp = tp, .kind = MatmulKind::input_grad, .in = mine(twide, r), .w = mine(tw, r), .out = mine(column_backward, r)});
  });
  for (int rank = 0; rank < l.team.size(); ++rank) {
    INFO("rank " << rank);
    const auto i = static_cast<std::size_t>(rank);
    CHECK(l.team[rank].bytes(in_place[i]) == l.team[rank].bytes(sum[i]));
  }
  const Values row = reference::matmul(MatmulKind::forward, wide, w2);
  l.check_shards(plain, row);
  l.check_shards(sum, plus(row, residual));
  l.check_shards(column_backward, reference::matmul(MatmulKind::input_grad, wide, w));
}

// Compares backward_scatter() with the two operations that it consists of.
void check_backward_scatter(Layout& l, std::int64_t tokens) {
  const Values dy = l.draw({tokens, inner_size}), w = l.draw({inner_size, hidden_size}), x = l.draw({tokens, hidden_size});
  const RowSplit cut(inner_size, l.team.size());
  const auto tdy = put_cols(l, dy), tw = put_rows(l, w);
  const auto tx = l.each([&](int r) { return l.team[r].put(x, l.dtype); });
  const auto dx = l.poisoned_shards(tokens, hidden_size), apart = l.poisoned_shards(tokens, hidden_size);
  const auto dw = l.each([&](int r) { return l.team[r].poisoned({cut.count(r), hidden_size}, DType::f32); });
  l.team.run([&](TestRank& r) {
    const TensorParallel tp = r.tp(l.sequence_parallel);
    r.ops().matmul_scatter(
        {.tp = tp, .kind = MatmulKind::input_grad, .in = mine(tdy, r), .w = mine(tw, r), .out = mine(apart, r)});
    for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
      r.ops().backward_scatter({.tp = tp,
                                .dy = mine(tdy, r),
                                .w = mine(tw, r),
                                .dx = mine(dx, r),
                                .x = mine(tx, r),
                                .dw = mine(dw, r),
                                .accumulate = accumulate});
    }
  });
  for (int rank = 0; rank < l.team.size(); ++rank) {
    INFO("rank " << rank);
    const auto i = static_cast<std::size_t>(rank);
    CHECK(l.team[rank].bytes(dx[i]) == l.team[rank].bytes(apart[i]));
    const Values once = reference::weight_grad(col_range(dy, cut.begin(rank), cut.end(rank)), x);
    CHECK(relative_error(l.team[rank].get(dw[i]), plus(once, once)) < l.tolerance);
  }
}

void check_biased_products(Layout& l, std::int64_t tokens) {
  const Values x = l.draw({tokens, hidden_size}), wide = l.draw({tokens, inner_size}), residual = l.draw({tokens, hidden_size});
  const Values w = l.draw({inner_size, hidden_size}), w2 = l.draw({hidden_size, inner_size});
  const Values bias = l.draw({inner_size, 1}), bias2 = l.draw({hidden_size});
  const RowSplit cut(inner_size, l.team.size());
  const auto shard_x = l.put_shards(x), shard_residual = l.put_shards(residual), tw = put_rows(l, w), tw2 = put_cols(l, w2);
  const auto twide = put_cols(l, wide), tbias = put_rows(l, bias);
  const auto tbias2 = l.each([&](int r) { return l.team[r].put(bias2, l.dtype); });
  const auto full = l.each([&](int r) { return l.team[r].poisoned({tokens, hidden_size}, l.dtype); });
  const auto column = l.each([&](int r) { return l.team[r].poisoned({tokens, cut.count(r)}, l.dtype); });
  const auto sum = l.poisoned_shards(tokens, hidden_size);
  l.team.run([&](TestRank& r) {
    const TensorParallel tp = r.tp(l.sequence_parallel);
    r.ops().gather_matmul({.tp = tp,
                           .kind = MatmulKind::forward,
                           .shard = mine(shard_x, r),
                           .w = mine(tw, r),
                           .full = mine(full, r),
                           .out = mine(column, r),
                           .bias = mine(tbias, r).reshaped({cut.count(r.rank())})});
    r.ops().matmul_scatter({.tp = tp,
                            .kind = MatmulKind::forward,
                            .in = mine(twide, r),
                            .w = mine(tw2, r),
                            .residual = mine(shard_residual, r),
                            .out = mine(sum, r),
                            .bias = mine(tbias2, r)});
  });
  Values flat = bias;
  flat.shape = {inner_size};
  const Values forward = reference::add_bias(reference::matmul(MatmulKind::forward, x, w), flat);
  for (int rank = 0; rank < l.team.size(); ++rank) {
    INFO("rank " << rank);
    const Values own = col_range(forward, cut.begin(rank), cut.end(rank));
    CHECK(relative_error(l.team[rank].get(column[static_cast<std::size_t>(rank)]), own) < l.tolerance);
  }
  l.check_shards(sum, plus(reference::add_bias(reference::matmul(MatmulKind::forward, wide, w2), bias2), residual));
}

void check_parallel_products(Layout& l, std::int64_t tokens) {
  INFO(tokens << " tokens");
  check_biased_products(l, tokens);
  check_gathered_products(l, tokens);
  check_scattered_products(l, tokens);
  check_backward_scatter(l, tokens);
}

TEST_CASE("column- and row-parallel products over ranks equal the whole product", "[ops]") {
  on_every_layout([](Layout& l) {
    for (const std::int64_t tokens : {2, 29, 130}) check_parallel_products(l, tokens);
  });
}

// GPUs move large tensors in pieces, overlapped with the products.
TEST_CASE("large products over ranks of GPUs equal the whole product", "[ops][gpu]") {
  bool tested = false;
  on_every_layout([&](Layout& l) {
    const bool in_pieces = l.team[0].device().id().kind == DeviceKind::cuda && l.sequence_parallel;
    if (in_pieces) check_parallel_products(l, 29999);
    tested |= in_pieces;
  });
  if (!tested) test::skip("needs 2 GPUs");
}

TEST_CASE("gather and scatter_sum over ranks", "[ops]") {
  on_every_layout([](Layout& l) {
    for (const std::int64_t tokens : {1, 7, 64}) {
      INFO(tokens << " tokens");
      const Values x = l.draw({tokens, 5});
      const auto shards = l.put_shards(x), sums = l.poisoned_shards(tokens, 5);
      const auto full = l.each([&](int r) { return l.team[r].poisoned({tokens, 5}, l.dtype); });
      std::vector<Values> parts;
      Values total(x.shape);
      for (int rank = 0; rank < l.team.size(); ++rank) {
        parts.push_back(l.draw(x.shape));
        total = plus(total, parts.back());
      }
      const auto partial = l.each([&](int r) { return l.team[r].put(parts[static_cast<std::size_t>(r)], l.dtype); });
      l.team.run([&](TestRank& r) {
        r.ops().gather({.tp = r.tp(l.sequence_parallel), .shard = mine(shards, r), .full = mine(full, r)});
        r.ops().scatter_sum({.tp = r.tp(l.sequence_parallel), .full = mine(partial, r), .out = mine(sums, r)});
      });
      for (int rank = 0; rank < l.team.size(); ++rank) {
        CHECK(relative_error(l.team[rank].get(full[static_cast<std::size_t>(rank)]), x) == 0);
      }
      l.check_shards(sums, total);
    }
  });
}

TEST_CASE("ranks that hold copies of a slice get its sum", "[ops]") {
  on_every_layout([](Layout& l) {
    const int ranks = l.team.size();
    for (const int copies : {1, 2, 3, 4}) {  // next to each other
      if (ranks % copies != 0) continue;
      std::vector<Values> sums(static_cast<std::size_t>(ranks / copies), Values(Shape{7}));
      std::vector<Tensor> shares;
      for (int rank = 0; rank < ranks; ++rank) {
        const Values share = l.draw({7});
        Values& sum = sums[static_cast<std::size_t>(rank / copies)];
        sum = plus(sum, share);
        shares.push_back(l.team[rank].put(share, DType::f32));
      }
      l.team.run([&](TestRank& r) {
        r.ops().sum_copies({.tp = r.tp(l.sequence_parallel),
                            .values = shares[static_cast<std::size_t>(r.rank())],
                            .slice = r.rank() / copies,
                            .slices = ranks / copies});
      });
      INFO(ranks << " ranks, " << copies << " copies");
      for (int rank = 0; rank < ranks; ++rank)
        CHECK(relative_error(l.team[rank].get(shares[static_cast<std::size_t>(rank)]),
                             sums[static_cast<std::size_t>(rank / copies)]) < 1e-6);
    }
  });
}

TEST_CASE("vocabulary-parallel embedding over uneven shards", "[ops]") {
  on_every_layout([](Layout& l) {
    const std::int64_t vocabulary = 50 + 3, hidden = 12;
    for (const std::int64_t tokens : {3, 41}) {
      INFO(tokens << " tokens");
      const RowSplit cut(vocabulary, l.team.size());
      const Values ids = random_ids(tokens, 0, vocabulary, l.random), table = l.draw({vocabulary, hidden});
      const Values dy = l.draw({tokens, hidden});
      const auto tids = l.each([&](int r) { return l.team[r].put(ids, DType::i32); });
      const auto rows = l.each([&](int r) { return l.team[r].put(row_range(table, cut.begin(r), cut.end(r)), l.dtype); });
      const auto tdy = l.each([&](int r) { return l.team[r].put(dy, l.dtype); });
      const auto grads = l.each([&](int r) { return l.team[r].put(Values(Shape{cut.count(r), hidden}), DType::f32); });
      const auto out = l.poisoned_shards(tokens, hidden);
      l.team.run([&](TestRank& r) {
        r.ops().embedding({.tp = r.tp(l.sequence_parallel),
                           .ids = mine(tids, r),
                           .table = mine(rows, r),
                           .first_id = cut.begin(r.rank()),
                           .out = mine(out, r)});
        r.ops().embedding_grad(
            {.ids = mine(tids, r), .dy = mine(tdy, r), .first_id = cut.begin(r.rank()), .dtable = mine(grads, r)});
      });
      l.check_shards(out, reference::embedding(ids, table));
      const Values expected = reference::embedding_grad(ids, dy, vocabulary);
      for (int rank = 0; rank < l.team.size(); ++rank) {
        const Values part = row_range(expected, cut.begin(rank), cut.end(rank));
        CHECK(relative_error(l.team[rank].get(grads[static_cast<std::size_t>(rank)]), part) < 1e-5);
      }
    }
  });
}

TEST_CASE("vocabulary-parallel cross-entropy over uneven shards is the same on every rank", "[ops]") {
  on_every_layout([](Layout& l) {
    for (const std::int64_t vocabulary : {3, 103}) {  // with 3 words and 4 ranks, one rank has none
      const std::int64_t tokens = 37;
      INFO(vocabulary << " words");
      const RowSplit cut(vocabulary, l.team.size());
      const Values logits = scaled(l.draw({tokens, vocabulary}), 4);
      const Values targets = random_ids(tokens, -1, vocabulary, l.random);
      const auto part = l.each([&](int r) { return l.team[r].put(col_range(logits, cut.begin(r), cut.end(r)), l.dtype); });
      const auto ttargets = l.each([&](int r) { return l.team[r].put(targets, DType::i32); });
      const auto log_sum_exp = l.each([&](int r) { return l.team[r].poisoned({tokens}, DType::f32); });
      const auto loss = l.each([&](int r) { return l.team[r].poisoned({1}, DType::f64); });
      l.team.run([&](TestRank& r) {
        r.ops().cross_entropy({.tp = r.tp(l.sequence_parallel),
                               .logits = mine(part, r),
                               .targets = mine(ttargets, r),
                               .vocabulary = {cut.begin(r.rank()), cut.count(r.rank())},
                               .log_sum_exp = mine(log_sum_exp, r),
                               .loss_sum = mine(loss, r)});
        r.ops().cross_entropy_backward({.logits = mine(part, r),
                                        .targets = mine(ttargets, r),
                                        .vocabulary = {cut.begin(r.rank()), cut.count(r.rank())},
                                        .log_sum_exp = mine(log_sum_exp, r),
                                        .scale = 0.5F});
      });
      const auto forward = reference::cross_entropy(logits, targets);
      const Values backward = reference::cross_entropy_backward(logits, targets, 0.5);
      CHECK(l.team[0].get(loss[0]).data[0] == Approx(forward.loss_sum).epsilon(1e-5));
      CHECK(relative_error(l.team[0].get(log_sum_exp[0]), forward.log_sum_exp) < 1e-5);
      for (int rank = 0; rank < l.team.size(); ++rank) {
        INFO("rank " << rank);
        const auto i = static_cast<std::size_t>(rank);
        CHECK(l.team[rank].bytes(loss[i]) == l.team[0].bytes(loss[0]));
        CHECK(l.team[rank].bytes(log_sum_exp[i]) == l.team[0].bytes(log_sum_exp[0]));
        if (cut.count(rank) == 0) continue;
        CHECK(relative_error(l.team[rank].get(part[i]), col_range(backward, cut.begin(rank), cut.end(rank))) < l.tolerance);
      }
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
