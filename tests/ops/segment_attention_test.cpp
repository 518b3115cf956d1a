// Attention of ranges of queries to ranges of keys of one sequence: merged and added up, it equals the whole sequence's
// in double precision, whose gradients agree with central differences (ops_reference_test.cpp).
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "core/error.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

struct Stretch {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

std::vector<Stretch> stretches(const std::vector<std::int64_t>& cuts) {
  std::vector<Stretch> all;
  for (std::size_t i = 1; i < cuts.size(); ++i) all.push_back({cuts[i - 1], cuts[i]});
  return all;
}

// Returns these positions of every sequence and columns [first, first + cols), then `extra` rows of a large number.
Values cut(const SegmentShape& shape, const Values& all, const Stretch& of, std::int64_t first, std::int64_t cols,
           std::int64_t extra = 0) {
  Values some({shape.batch * (of.size() + extra), cols});
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t s = 0; s < of.size() + extra; ++s) {
      for (std::int64_t i = 0; i < cols; ++i)
        some(b * (of.size() + extra) + s, i) = s < of.size() ? all(b * shape.queries + of.begin + s, first + i) : 8192;
    }
  }
  return some;
}

struct Whole {
  SegmentShape shape;
  Values qkv, dout;
  reference::Sight sight;
  std::int64_t query_cols() const { return shape.heads * shape.head_dim; }
  std::int64_t key_cols() const { return 2 * shape.kv_heads * shape.head_dim; }
};

// The sight of queries: documents of this many tokens, or, if it is 0, one a sequence; `dropped` of the draws drop
// probabilities.
reference::Sight sight_of(const SegmentShape& shape, std::int64_t document, std::uint32_t dropped) {
  reference::Sight sight{.dropout = {.key = {5, 6}, .dropped = dropped, .first_sample = 3, .first_plane = 2}};
  if (document == 0) return sight;
  sight.documents = Values(Shape{shape.tokens()});
  for (std::int64_t t = 0; t < shape.tokens(); ++t) {
    const std::int64_t at = t % shape.queries;
    sight.documents.data[static_cast<std::size_t>(t)] = static_cast<double>(at - at % document);
  }
  return sight;
}

// The keys of a range on the device, and their gradient, whose additional row must stay unchanged.
struct Keys {
  Stretch of;
  Tensor kv, dkv;
};

// The results of one range of queries with every range of keys.
struct Queries {
  Tensor q, dout, documents, out, rounded, log_sum_exp, part, part_sums, dq;
};

SegmentShape segment(const Whole& whole, const Stretch& queries, const Stretch& keys) {
  SegmentShape shape = whole.shape;
  shape.queries = queries.size(), shape.keys = keys.size();
  shape.first_query = queries.begin, shape.first_key = keys.begin;
  return shape;
}

Queries make_queries(Bench& b, const Whole& whole, const Stretch& of) {
  const std::int64_t rows = whole.shape.batch * of.size();
  const Shape sums{whole.shape.batch, whole.shape.heads, of.size()};
  const auto out = [&] { return b.rank.poisoned({rows, whole.query_cols()}, DType::f32); };
  Values documents(Shape{rows, 1});
  if (!whole.sight.documents.data.empty()) {
    Values all = whole.sight.documents;
    all.shape = {whole.shape.tokens(), 1};
    documents = cut(whole.shape, all, of, 0, 1);
  }
  return {.q = b.put(cut(whole.shape, whole.qkv, of, 0, whole.shape.packed_cols())),  // packed: the heads come first
          .dout = b.put(cut(whole.shape, whole.dout, of, 0, whole.query_cols())),
          .documents = b.rank.put(documents, DType::i32),
          .out = out(),
          .rounded = b.poisoned({rows, whole.query_cols()}),
          .log_sum_exp = b.rank.poisoned(sums, DType::f32),
          .part = out(),
          .part_sums = b.rank.poisoned(sums, DType::f32),
          .dq = out()};
}

// Forward over all keys, then backward.
void compute_segment(TestRank& r, const Whole& whole, const Stretch& of, const Queries& on, const std::vector<Keys>& keys) {
  std::optional<Tensor> documents;
  if (!whole.sight.documents.data.empty()) documents = on.documents;
  for (std::size_t at = 0; at < keys.size(); ++at) {
    const SegmentShape shape = segment(whole, of, keys[at].of);
    r.ops().attention(shape, {.q = on.q,
                              .kv = keys[at].kv,
                              .out = at == 0 ? on.out : on.part,
                              .log_sum_exp = at == 0 ? on.log_sum_exp : on.part_sums,
                              .documents = documents,
                              .dropout = whole.sight.dropout});
    if (at != 0)
      r.ops().merge_attention(
          shape, {.part = on.part, .part_log_sum_exp = on.part_sums, .out = on.out, .log_sum_exp = on.log_sum_exp});
  }
  for (std::size_t at = 0; at < keys.size(); ++at)
    r.ops().attention_backward(segment(whole, of, keys[at].of), {.dout = on.dout,
                                                                 .q = on.q,
                                                                 .kv = keys[at].kv,
                                                                 .out = on.out,
                                                                 .log_sum_exp = on.log_sum_exp,
                                                                 .dq = on.dq,
                                                                 .dkv = keys[at].dkv,
                                                                 .accumulate_dq = at == 0 ? Accumulate::no : Accumulate::yes,
                                                                 .accumulate_dkv = Accumulate::yes,
                                                                 .documents = documents,
                                                                 .dropout = whole.sight.dropout});
}

// Like compute(), but first with the keys at the queries' own positions, then with those before them, to which all
// queries attend. The results of a range of keys have the activations' type, as `rounded` has, and sums are f32: the
// case of tensor cores.
void compute_seen(TestRank& r, const Whole& whole, const Stretch& of, const Queries& on, const std::vector<Keys>& keys) {
  std::vector<const Keys*> seen;
  for (const Keys& one : keys) {
    if (one.of.begin == of.begin) seen.insert(seen.begin(), &one);
    if (one.of.end <= of.begin) seen.push_back(&one);
  }
  for (const Keys* one : seen) {
    const bool first = one == seen.front();
    const SegmentShape shape = segment(whole, of, one->of);
    r.ops().attention(shape,
                      {.q = on.q, .kv = one->kv, .out = on.rounded, .log_sum_exp = first ? on.log_sum_exp : on.part_sums});
    if (first)
      r.ops().copy_columns({.source = on.rounded, .target = on.out, .count = whole.query_cols()});
    else
      r.ops().merge_attention(
          shape, {.part = on.rounded, .part_log_sum_exp = on.part_sums, .out = on.out, .log_sum_exp = on.log_sum_exp});
  }
  r.ops().copy_columns({.source = on.out, .target = on.rounded, .count = whole.query_cols()});
  for (const Keys* one : seen)
    r.ops().attention_backward(segment(whole, of, one->of),
                               {.dout = on.dout,
                                .q = on.q,
                                .kv = one->kv,
                                .out = on.rounded,
                                .log_sum_exp = on.log_sum_exp,
                                .dq = on.dq,
                                .dkv = one->dkv,
                                .accumulate_dq = one == seen.front() ? Accumulate::no : Accumulate::yes,
                                .accumulate_dkv = Accumulate::yes});
}

// Compares the attention of the whole sequence in these ranges with the reference. seen: by compute_seen().
void check_stretches(Bench& b, const Whole& whole, const std::vector<Stretch>& cut_queries,
                     const std::vector<Stretch>& cut_keys, bool seen = false) {
  std::vector<Keys> keys;
  for (const Stretch& of : cut_keys) {
    const Values kv = cut(whole.shape, whole.qkv, of, whole.query_cols(), whole.key_cols(), 1);
    keys.push_back({of, b.put(kv), b.put_f32(Values(kv.shape))});
  }
  const auto forward = reference::attention(whole.shape, whole.qkv, whole.sight);
  const Values gradient = reference::attention_backward(whole.shape, whole.dout, whole.qkv, whole.sight);
  for (const Stretch& of : cut_queries) {
    const Queries on = make_queries(b, whole, of);
    b.team.run([&](TestRank& r) { seen ? compute_seen(r, whole, of, on, keys) : compute_segment(r, whole, of, on, keys); });
    CHECK(relative_error(b.rank.get(on.out), cut(whole.shape, forward.out, of, 0, whole.query_cols())) < b.tolerance);
    CHECK(relative_error(b.rank.get(on.dq), cut(whole.shape, gradient, of, 0, whole.query_cols())) < b.tolerance);
    Values sums(Shape{whole.shape.batch * whole.shape.heads, of.size()});
    for (std::int64_t row = 0; row < sums.rows(); ++row) {
      for (std::int64_t s = 0; s < of.size(); ++s)
        sums(row, s) =
            forward.log_sum_exp(row / whole.shape.heads, row % whole.shape.heads * whole.shape.queries + of.begin + s);
    }
    Values found = b.rank.get(on.log_sum_exp);
    found.shape = sums.shape;
    CHECK(relative_error(found, sums) < (b.dtype == DType::f32 ? 2e-5 : 2e-3));
  }
  for (const Keys& of : keys) {
    Values expected = cut(whole.shape, gradient, of.of, whole.query_cols(), whole.key_cols(), 1);
    for (double& value : expected.data) value = value == 8192 ? 0 : value;
    CHECK(relative_error(b.rank.get(of.dkv), expected) < b.tolerance);
  }
}

TEST_CASE("attention between stretches of a sequence adds up to the whole's", "[ops][segments]") {
  struct Case {
    SegmentShape shape;
    std::vector<std::int64_t> queries, keys;
    std::int64_t document = 0;  // length, 0: one a sequence
    std::uint16_t dropped = 0;
  };
  const std::vector<Case> cases{
      {whole_sequences(1, 1, {1, 1, 8}), {0, 1}, {0, 1}},
      {whole_sequences(2, 6, {3, 3, 8}), {0, 3, 6}, {0, 3, 6}},
      {whole_sequences(2, 9, {4, 2, 16}), {0, 2, 9}, {0, 4, 5, 9}},
      {whole_sequences(1, 260, {8, 2, 40}), {0, 65, 130, 195, 260}, {0, 260}},
      {whole_sequences(2, 200, {6, 1, 64}), {0, 100, 200}, {0, 77, 200}, 0, 13000},
      {whole_sequences(3, 150, {4, 4, 32}), {0, 64, 150}, {0, 50, 100, 150}, 40},
      {whole_sequences(1, 130, {2, 1, 256}), {0, 70, 130}, {0, 70, 130}, 23, 9000},
  };
  on_every_backend([&](Bench& b) {
    for (const Case& one : cases) {
      INFO(one.shape.batch << " x " << one.shape.queries << ", " << one.shape.heads << " heads of " << one.shape.head_dim);
      const Whole whole{.shape = one.shape,
                        .qkv = b.draw({one.shape.tokens(), one.shape.packed_cols()}),
                        .dout = b.draw({one.shape.tokens(), one.shape.heads * one.shape.head_dim}),
                        .sight = sight_of(one.shape, one.document, one.dropped)};
      check_stretches(b, whole, stretches(one.queries), stretches(one.keys));
    }
  });
}

TEST_CASE("the output for each range of keys may be rounded before it is merged, and its gradients add up", "[ops][segments]") {
  struct Case {
    SegmentShape shape;
    std::vector<std::int64_t> cuts;
  };
  const std::vector<Case> cases{
      {whole_sequences(2, 6, {3, 3, 8}), {0, 3, 6}},
      {whole_sequences(1, 200, {3, 1, 64}), {0, 72, 200}},
      {whole_sequences(2, 256, {1, 1, 64}), {0, 128, 256}},
      {whole_sequences(1, 512, {2, 1, 64}), {0, 128, 384, 512}},
      {whole_sequences(1, 384, {2, 1, 128}), {0, 128, 256, 384}},
      {whole_sequences(1, 256, {2, 2, 128}), {0, 128, 256}},
      {whole_sequences(1, 256, {2, 1, 96}), {0, 128, 256}},
      {whole_sequences(1, 192, {2, 1, 256}), {0, 64, 192}},
  };
  on_every_backend([&](Bench& b) {
    for (const Case& one : cases) {
      INFO(one.shape.batch << " x " << one.shape.queries << ", " << one.shape.heads << " heads on " << one.shape.kv_heads
                           << " of " << one.shape.head_dim);
      const Whole whole{.shape = one.shape,
                        .qkv = b.draw({one.shape.tokens(), one.shape.packed_cols()}),
                        .dout = b.draw({one.shape.tokens(), one.shape.heads * one.shape.head_dim}),
                        .sight = {}};
      check_stretches(b, whole, stretches(one.cuts), stretches(one.cuts), true);
    }
  });
}

TEST_CASE("queries that see a window of positions add up over stretches too, in documents and where some are dropped",
          "[ops][segments]") {
  struct Case {
    SegmentShape shape;
    std::int64_t window;
    std::vector<std::int64_t> queries, keys;
    std::int64_t document = 0;  // length, 0: one a sequence
    std::uint16_t dropped = 0;
  };
  const std::vector<Case> cases{
      {whole_sequences(1, 5, {1, 1, 8}), 2, {0, 5}, {0, 5}},
      {whole_sequences(2, 9, {4, 2, 16}), 3, {0, 2, 9}, {0, 4, 5, 9}},
      {whole_sequences(1, 260, {8, 2, 40}), 70, {0, 65, 130, 195, 260}, {0, 260}},
      {whole_sequences(2, 200, {6, 1, 64}), 64, {0, 200}, {0, 77, 200}, 0, 13000},
      {whole_sequences(3, 150, {4, 4, 32}), 9, {0, 64, 150}, {0, 50, 100, 150}, 40},
      {whole_sequences(1, 130, {2, 1, 256}), 50, {0, 70, 130}, {0, 70, 130}, 40, 9000},
      {whole_sequences(1, 30, {2, 1, 16}), 400, {0, 30}, {0, 30}, 7, 9000},  // a window that no query fills
  };
  on_every_backend([&](Bench& b) {
    for (const Case& one : cases) {
      SegmentShape shape = one.shape;
      shape.window = one.window;
      INFO(shape.batch << " x " << shape.queries << " in a window of " << shape.window);
      const Whole whole{.shape = shape,
                        .qkv = b.draw({shape.tokens(), shape.packed_cols()}),
                        .dout = b.draw({shape.tokens(), shape.heads * shape.head_dim}),
                        .sight = sight_of(shape, one.document, one.dropped)};
      check_stretches(b, whole, stretches(one.queries), stretches(one.keys));
    }
  });
}

TEST_CASE(
    "queries that see the first positions, blocks or stripes add up over stretches, in documents and where some are dropped",
    "[ops][segments]") {
  struct Pattern {
    std::int64_t window, sinks = 0, block = 0, period = 0, stripe = 0;
  };
  struct Case {
    SegmentShape shape;
    std::vector<std::int64_t> queries, keys;
    std::int64_t document = 0;  // length, 0: one a sequence
    std::uint16_t dropped = 0;
  };
  const std::vector<Case> cases{
      {whole_sequences(1, 9, {1, 1, 8}), {0, 9}, {0, 9}},
      {whole_sequences(1, 260, {8, 2, 40}), {0, 65, 130, 195, 260}, {0, 260}},
      {whole_sequences(2, 200, {6, 1, 64}), {0, 200}, {0, 77, 200}, 0, 13000},
      {whole_sequences(3, 150, {4, 4, 32}), {0, 64, 150}, {0, 50, 100, 150}, 40},
      {whole_sequences(1, 130, {2, 1, 256}), {0, 70, 130}, {0, 70, 130}, 90, 9000},
  };
  on_every_backend([&](Bench& b) {
    if (!on_cpu(b)) return;  // refused there
    for (const Pattern& pattern : {Pattern{3, 2}, Pattern{70, 4}, Pattern{20, 33}, Pattern{400, 4}, Pattern{32, 16, 16},
                                   Pattern{64, 0, 64, 64, 16}, Pattern{8, 3, 4, 8, 2}}) {
      for (const Case& one : cases) {
        SegmentShape shape = one.shape;
        shape.window = pattern.window, shape.sinks = pattern.sinks, shape.block = pattern.block;
        shape.period = pattern.period, shape.stripe = pattern.stripe;
        INFO(shape.batch << " x " << shape.queries << " in a window of " << shape.window << ", sinks " << shape.sinks);
        const Whole whole{.shape = shape,
                          .qkv = b.draw({shape.tokens(), shape.packed_cols()}),
                          .dout = b.draw({shape.tokens(), shape.heads * shape.head_dim}),
                          .sight = sight_of(shape, one.document, one.dropped)};
        check_stretches(b, whole, stretches(one.queries), stretches(one.keys));
      }
    }
  });
}

TEST_CASE("keys and values are the last columns of what they lie in", "[ops][segments]") {
  on_every_backend([&](Bench& b) {
    const SegmentShape shape{.batch = 2, .queries = 70, .keys = 70, .heads = 4, .kv_heads = 2, .head_dim = 16};
    const Values qkv = b.draw({140, 128});
    const Tensor packed = b.put(qkv), kv = b.put(col_range(qkv, 64, 128));
    const Tensor sums = b.rank.poisoned({2, 4, 70}, DType::f32);
    const Tensor of_packed = b.poisoned({140, 64}), of_apart = b.poisoned({140, 64});
    b.team.run([&](TestRank& r) {
      r.ops().attention(shape, {.q = packed, .kv = packed, .out = of_packed, .log_sum_exp = sums});
      r.ops().attention(shape, {.q = packed, .kv = kv, .out = of_apart, .log_sum_exp = sums});
    });
    CHECK(b.rank.bytes(of_packed) == b.rank.bytes(of_apart));
  });
}

// The results of slices of a sequence, each with the keys and values up to its own last position.
struct Slices {
  Values out, dqkv;  // of all slices, joined: dK and dV as they were summed
  std::vector<unsigned char> bits;
};

struct SliceValues {
  const Values &out, &dq, &key_gradients;
};
// Copies a slice's rows into the whole.
void put_together(const Whole& whole, const Stretch& slice, const SliceValues& of, Slices& found) {
  const std::int64_t length = whole.shape.queries, stride = of.key_gradients.rows() / whole.shape.batch;
  for (std::int64_t row = 0; row < of.out.rows(); ++row) {
    const std::int64_t sequence = row / slice.size(), at = row % slice.size() + slice.begin, token = sequence * length + at;
    for (std::int64_t c = 0; c < whole.query_cols(); ++c)
      found.out(token, c) = of.out(row, c), found.dqkv(token, c) = of.dq(row, c);
    for (std::int64_t c = 0; c < whole.key_cols(); ++c)
      found.dqkv(token, whole.query_cols() + c) = of.key_gradients(sequence * stride + at, c);
  }
}

Slices compute_slices(Bench& b, const Whole& whole, const std::vector<Stretch>& slices) {
  const SegmentShape& shape = whole.shape;
  const std::int64_t spare = 3;  // rows of each sequence after its keys
  const Stretch all{0, shape.queries};
  const Tensor kv = b.put(cut(shape, whole.qkv, all, whole.query_cols(), whole.key_cols(), spare));
  const Tensor dkv = b.put_f32(Values({kv.rows(), whole.key_cols()}));
  std::vector<Queries> queries;
  for (const Stretch& of : slices) {
    Queries on = make_queries(b, whole, of);
    on.out = b.poisoned(on.out.shape), on.dq = b.poisoned(on.q.shape);
    queries.push_back(on);
  }
  const auto documents = [&](std::size_t i) {
    return whole.sight.documents.data.empty() ? std::nullopt : std::optional(queries[i].documents);
  };
  b.team.run([&](TestRank& r) {
    for (std::size_t i = 0; i < slices.size(); ++i)
      r.ops().attention(segment(whole, slices[i], {0, slices[i].end}), {.q = queries[i].q,
                                                                        .kv = kv,
                                                                        .out = queries[i].out,
                                                                        .log_sum_exp = queries[i].log_sum_exp,
                                                                        .documents = documents(i),
                                                                        .dropout = whole.sight.dropout});
    for (std::size_t i = slices.size(); i-- > 0;)
      r.ops().attention_backward(segment(whole, slices[i], {0, slices[i].end}), {.dout = queries[i].dout,
                                                                                 .q = queries[i].q,
                                                                                 .kv = kv,
                                                                                 .out = queries[i].out,
                                                                                 .log_sum_exp = queries[i].log_sum_exp,
                                                                                 .dq = queries[i].dq,
                                                                                 .dkv = dkv,
                                                                                 .accumulate_dkv = Accumulate::yes,
                                                                                 .documents = documents(i),
                                                                                 .dropout = whole.sight.dropout});
  });
  Slices found{Values({shape.tokens(), whole.query_cols()}), Values({shape.tokens(), shape.packed_cols()}), b.rank.bytes(dkv)};
  const Values key_gradients = b.rank.get(dkv);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    for (const Tensor& one : {queries[i].out, queries[i].dq}) {
      const auto bits = b.rank.bytes(one);
      found.bits.insert(found.bits.end(), bits.begin(), bits.end());
    }
    put_together(whole, slices[i], {b.rank.get(queries[i].out), b.rank.get(queries[i].dq), key_gradients}, found);
  }
  return found;
}

TEST_CASE("slices of a sequence that see all keys before them give the whole's attention, the same bits every time",
          "[ops][segments]") {
  struct Case {
    SegmentShape shape;
    std::vector<std::int64_t> cuts;
  };
  const std::vector<Case> cases{
      {whole_sequences(2, 12, {4, 2, 16}), {0, 5, 12}},      {whole_sequences(1, 200, {3, 1, 64}), {0, 64, 128, 200}},
      {whole_sequences(2, 256, {2, 1, 64}), {0, 128, 256}},  {whole_sequences(1, 384, {1, 1, 64}), {0, 128, 256, 384}},
      {whole_sequences(1, 256, {2, 1, 128}), {0, 128, 256}}, {whole_sequences(1, 384, {1, 1, 128}), {0, 256, 384}},
      {whole_sequences(1, 130, {3, 1, 96}), {0, 64, 130}},   {whole_sequences(1, 192, {2, 1, 256}), {0, 64, 192}},
      {whole_sequences(2, 70, {2, 1, 256}), {0, 30, 70}},
  };
  struct Seen {
    std::int64_t document;
    std::uint32_t dropped;
  };
  on_every_backend([&](Bench& b) {
    for (const Case& one : cases) {
      for (const Seen& seen : {Seen{0, 0}, {0, 13000}, {50, 0}, {150, 0}, {7, 13000}}) {
        INFO(one.shape.batch << " x " << one.shape.queries << ", " << one.shape.heads << " heads on " << one.shape.kv_heads
                             << " of " << one.shape.head_dim << ", documents of " << seen.document << ", " << seen.dropped
                             << " dropped");
        const Whole whole{.shape = one.shape,
                          .qkv = b.draw({one.shape.tokens(), one.shape.packed_cols()}),
                          .dout = b.draw({one.shape.tokens(), one.shape.heads * one.shape.head_dim}),
                          .sight = sight_of(one.shape, seen.document, seen.dropped)};
        const Slices found = compute_slices(b, whole, stretches(one.cuts)),
                     again = compute_slices(b, whole, stretches(one.cuts));
        CHECK(found.bits == again.bits);
        CHECK(relative_error(found.out, reference::attention(whole.shape, whole.qkv, whole.sight).out) < b.tolerance);
        const Values gradient = reference::attention_backward(whole.shape, whole.dout, whole.qkv, whole.sight);
        CHECK(relative_error(col_range(found.dqkv, 0, whole.query_cols()), col_range(gradient, 0, whole.query_cols())) <
              b.tolerance);
        CHECK(relative_error(col_range(found.dqkv, whole.query_cols(), whole.shape.packed_cols()),
                             col_range(gradient, whole.query_cols(), whole.shape.packed_cols())) < b.tolerance);
      }
    }
  });
}

// Returns for each query which probabilities are kept and visible, if a sequence is no longer than a head is wide: the
// value of the key with this number has a one in the column of that number.
std::vector<bool> seen_and_kept(const Values& out) {
  std::vector<bool> kept;
  for (const double value : out.data) kept.push_back(value != 0);
  return kept;
}

TEST_CASE("slices see and drop the probabilities that the whole sequence sees and drops, to the bit", "[ops][segments]") {
  struct Case {
    SegmentShape shape;
    std::vector<std::int64_t> cuts;
  };
  const std::vector<Case> cases{{whole_sequences(2, 12, {2, 1, 16}), {0, 1, 5, 12}},
                                {whole_sequences(2, 64, {3, 1, 64}), {0, 30, 64}},
                                {whole_sequences(1, 128, {2, 2, 128}), {0, 64, 128}},
                                {whole_sequences(1, 256, {1, 1, 256}), {0, 128, 200, 256}}};
  on_every_backend([&](Bench& b) {
    for (const auto& [shape, cuts] : cases) {
      for (const std::int64_t document : {std::int64_t{0}, std::int64_t{9}}) {
        INFO(shape.batch << " x " << shape.queries << ", heads of " << shape.head_dim << ", documents of " << document);
        Whole whole{.shape = shape,
                    .qkv = Values({shape.tokens(), shape.packed_cols()}),
                    .dout = b.draw({shape.tokens(), shape.heads * shape.head_dim}),
                    .sight = sight_of(shape, document, 20000)};
        for (std::int64_t token = 0; token < shape.tokens(); ++token)
          for (std::int64_t head = 0; head < shape.kv_heads; ++head)
            whole.qkv(token, (shape.heads + shape.kv_heads + head) * shape.head_dim + token % shape.queries) = 1;
        const Tensor qkv = b.put(whole.qkv), out = b.poisoned(whole.dout.shape);
        std::optional<Tensor> documents;
        if (document > 0) documents = b.rank.put(whole.sight.documents, DType::i32);
        const Tensor log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
        b.team.run([&](TestRank& r) {
          r.ops().attention(shape, {.q = qkv,
                                    .kv = qkv,
                                    .out = out,
                                    .log_sum_exp = log_sum_exp,
                                    .documents = documents,
                                    .dropout = whole.sight.dropout});
        });
        const std::vector<bool> expected = seen_and_kept(b.rank.get(out));
        CHECK(seen_and_kept(compute_slices(b, whole, stretches(cuts)).out) == expected);
        CHECK(std::count(expected.begin(), expected.end(), true) > shape.tokens());
      }
    }
  });
}

TEST_CASE("a GPU refuses sinks by a typed error before it computes anything", "[gpu][segments]") {
  on_every_backend([&](Bench& b) {
    if (on_cpu(b)) return;
    const SegmentShape plain = whole_sequences(1, 4, {2, 1, 8});
    const Tensor qkv = b.put(b.draw({4, plain.packed_cols()})), out = b.poisoned({4, plain.query_cols()});
    const Tensor dqkv = b.poisoned(qkv.shape), cache = b.poisoned({4, plain.key_value_cols()});
    const Tensor sums = b.rank.poisoned({1, 2, 4}, DType::f32);
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.kind() == ErrorKind::unavailable ? 1 : 0;
      }
      return 0;
    };
    SegmentShape with_sinks = plain;
    with_sinks.sinks = 1;
    int refusals = 0;
    b.team.run([&](TestRank& r) {
      refusals += refused([&] { r.ops().attention(with_sinks, {.q = qkv, .kv = qkv, .out = out, .log_sum_exp = sums}); });
      refusals += refused([&] {
        r.ops().attention_backward(
            with_sinks, {.dout = out, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = sums, .dq = dqkv, .dkv = dqkv});
      });
      refusals += refused([&] { r.ops().cached_attention(with_sinks, {.qkv = qkv, .cache = cache, .out = out}); });
    });
    CHECK(refusals == 3);
  });
}

}  // namespace
}  // namespace pipetrain::testing
