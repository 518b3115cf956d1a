// Attention of ranges of queries to ranges of keys of one sequence: merged and added up, it equals the whole sequence's
// in double precision, whose gradients agree with central differences (ops_reference_test.cpp).
#include <algorithm>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "ops/whole_attention.hpp"

namespace pipetrain::testing {
namespace {

// The keys of a range on the device, and their gradient, whose additional row must stay unchanged.
struct Keys {
  Stretch of;
  Tensor kv, dkv;
};

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

}  // namespace
}  // namespace pipetrain::testing
