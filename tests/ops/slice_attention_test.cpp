// Slices of a sequence that see all keys before them give the whole sequence's attention.
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "ops/whole_attention.hpp"

namespace pipetrain::testing {
namespace {

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

}  // namespace
}  // namespace pipetrain::testing
