// Documents that share a sequence: attention and positions end with them, on every backend of this machine.
#include <algorithm>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

// Documents of 1 to `longest` tokens until the sequence is full, different for each sequence.
Values random_documents(std::int64_t batch, std::int64_t sequence, std::int64_t longest, std::mt19937_64& random) {
  std::uniform_int_distribution<std::int64_t> length(1, longest);
  Values documents(Shape{batch * sequence});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t begin = 0; begin < sequence;) {
      const std::int64_t end = std::min(sequence, begin + length(random));
      for (std::int64_t t = begin; t < end; ++t) documents.data[static_cast<std::size_t>(b * sequence + t)] = double(begin);
      begin = end;
    }
  }
  return documents;
}

const std::vector<SegmentShape> document_shapes{whole_sequences(1, 1, {1, 1, 8}),    whole_sequences(2, 5, {3, 3, 8}),
                                                whole_sequences(1, 63, {4, 2, 16}),  whole_sequences(3, 65, {6, 2, 64}),
                                                whole_sequences(2, 130, {4, 4, 64}), whole_sequences(1, 257, {2, 1, 128}),
                                                whole_sequences(2, 300, {8, 1, 16})};

TEST_CASE("attention sees the keys of its own document only, with dropout and without", "[ops][documents]") {
  on_every_backend([](Bench& b) {
    for (const SegmentShape& shape : document_shapes) {
      for (const std::int64_t longest : {std::int64_t{3}, std::int64_t{40}, shape.queries}) {
        const Dropout dropout{.key = {3, 4}, .dropped = longest == 40 ? 13000U : 0U};
        const reference::Sight sight{random_documents(shape.batch, shape.queries, longest, b.random), dropout};
        INFO(shape.batch << " x " << shape.queries << " heads of " << shape.head_dim << ", documents to " << longest);
        const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
        const Values dout = b.draw({shape.tokens(), shape.heads * shape.head_dim});
        const Tensor tqkv = b.put(qkv), tdout = b.put(dout), out = b.poisoned(dout.shape), dqkv = b.poisoned(qkv.shape);
        const Tensor log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
        const Tensor documents = b.rank.put(sight.documents, DType::i32);
        b.team.run([&](TestRank& r) {
          r.ops().attention(
              shape,
              {.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp, .documents = documents, .dropout = dropout});
          r.ops().attention_backward(shape, {.dout = tdout,
                                             .q = tqkv,
                                             .kv = tqkv,
                                             .out = out,
                                             .log_sum_exp = log_sum_exp,
                                             .dq = dqkv,
                                             .dkv = dqkv,
                                             .documents = documents,
                                             .dropout = dropout});
        });
        const auto forward = reference::attention(shape, qkv, sight);
        CHECK(relative_error(b.rank.get(out), forward.out) < b.tolerance);
        // For a document of one token it is the score itself.
        CHECK(relative_error(b.rank.get(log_sum_exp), forward.log_sum_exp) < (b.dtype == DType::f32 ? 2e-5 : 2e-3));
        const Values expected = reference::attention_backward(shape, dout, qkv, sight);
        CHECK(relative_error(b.rank.get(dqkv), expected) < b.tolerance);
      }
    }
  });
}

TEST_CASE("documents in sequences of whole blocks have the gradients of the reference, the same bits every time",
          "[ops][documents]") {
  on_every_backend([](Bench& b) {
    if (b.dtype == DType::f32) return;  // the same kernels whatever the sequence
    for (const SegmentShape& shape :
         {whole_sequences(2, 128, {2, 1, 64}), whole_sequences(1, 256, {2, 1, 64}), whole_sequences(1, 256, {1, 1, 128})}) {
      const reference::Sight sight{random_documents(shape.batch, shape.queries, 150, b.random), {}};
      INFO(shape.batch << " x " << shape.queries << " heads of " << shape.head_dim);
      const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
      const Values dout = b.draw({shape.tokens(), shape.heads * shape.head_dim});
      const Tensor tqkv = b.put(qkv), tdout = b.put(dout), out = b.poisoned(dout.shape);
      const Tensor dqkv = b.poisoned(qkv.shape), again = b.poisoned(qkv.shape);
      const Tensor log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
      const Tensor documents = b.rank.put(sight.documents, DType::i32);
      b.team.run([&](TestRank& r) {
        r.ops().attention(shape, {.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp, .documents = documents});
        for (const Tensor& gradient : {dqkv, again})
          r.ops().attention_backward(shape, {.dout = tdout,
                                             .q = tqkv,
                                             .kv = tqkv,
                                             .out = out,
                                             .log_sum_exp = log_sum_exp,
                                             .dq = gradient,
                                             .dkv = gradient,
                                             .documents = documents});
      });
      CHECK(relative_error(b.rank.get(dqkv), reference::attention_backward(shape, dout, qkv, sight)) < b.tolerance);
      CHECK(b.rank.bytes(dqkv) == b.rank.bytes(again));
    }
  });
}

TEST_CASE("one document a sequence gives the bits of attention without documents", "[ops][documents]") {
  on_every_backend([](Bench& b) {
    if (b.dtype != DType::f32) return;  // bf16 without documents is another implementation
    const SegmentShape shape = whole_sequences(2, 130, {4, 2, 64});
    const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
    const Tensor tqkv = b.put(qkv), documents = b.rank.put(Values(Shape{shape.tokens()}), DType::i32);
    const Tensor out = b.poisoned({shape.tokens(), shape.heads * shape.head_dim}), out2 = b.poisoned(out.shape);
    const Tensor dqkv = b.poisoned(qkv.shape), dqkv2 = b.poisoned(qkv.shape);
    const Tensor log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
    const Tensor dout = b.put(b.draw(out.shape));
    b.team.run([&](TestRank& r) {
      AttentionArgs forward{.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp};
      AttentionBackwardArgs backward{
          .dout = dout, .q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp, .dq = dqkv, .dkv = dqkv};
      r.ops().attention(shape, forward);
      r.ops().attention_backward(shape, backward);
      forward.documents = backward.documents = documents;
      forward.out = backward.out = out2;
      backward.dq = backward.dkv = dqkv2;
      r.ops().attention(shape, forward);
      r.ops().attention_backward(shape, backward);
    });
    CHECK(b.rank.bytes(out) == b.rank.bytes(out2));
    CHECK(b.rank.bytes(dqkv) == b.rank.bytes(dqkv2));
  });
}

TEST_CASE("positions count from the document's first token", "[ops][documents]") {
  on_every_backend([](Bench& b) {
    for (const SegmentShape& shape : document_shapes) {
      INFO(shape.batch << " x " << shape.queries);
      const Values documents = random_documents(shape.batch, shape.queries, 20, b.random);
      const Tensor tdocuments = b.rank.put(documents, DType::i32);
      const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
      const Values angles = rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32);
      const Tensor tangles = b.put_f32(angles), forward = b.put(qkv), inverse = b.put(qkv);

      // Learned positions, for a shard that begins in the middle.
      const std::int64_t first = shape.tokens() / 3, rows = shape.tokens() - first, hidden = 48;
      const Values x = b.draw({rows, hidden}), table = b.draw({shape.queries, hidden}), old = b.draw_f32(table.shape);
      const Tensor tx = b.put(x), placed = b.put(x), ttable = b.put(table), dtable = b.put_f32(old);
      b.team.run([&](TestRank& r) {
        r.ops().rotary(shape, {.qkv = forward, .cos_sin = tangles, .documents = tdocuments});
        r.ops().rotary(shape, {.qkv = inverse, .cos_sin = tangles, .documents = tdocuments, .inverse = true});
        r.ops().add_positions(
            {.first_token = first, .sequence = shape.queries, .table = ttable, .x = placed, .documents = tdocuments});
        r.ops().positions_grad(
            {.first_token = first, .sequence = shape.queries, .dy = tx, .dtable = dtable, .documents = tdocuments});
      });
      CHECK(relative_error(b.rank.get(forward), reference::rotary(shape, qkv, angles, false, documents)) < b.tolerance);
      CHECK(relative_error(b.rank.get(inverse), reference::rotary(shape, qkv, angles, true, documents)) < b.tolerance);
      CHECK(relative_error(b.rank.get(placed), reference::add_positions(first, shape.queries, table, x, documents)) <
            b.tolerance);
      const Values grad = reference::positions_grad({first, shape.queries, shape.queries}, x, documents);
      CHECK(relative_error(b.rank.get(dtable), plus(old, grad)) < statistics_tolerance);
    }
  });
}

TEST_CASE("positions may be those of another part of a longer sequence", "[ops][documents]") {
  on_every_backend([](Bench& b) {
    const SegmentShape shape = whole_sequences(2, 70, {4, 2, 16});
    constexpr std::int64_t positions = 300, hidden = 48;
    Values origins(Shape{shape.tokens()});
    for (std::int64_t t = 0; t < shape.tokens(); ++t)
      origins.data[static_cast<std::size_t>(t)] = t % shape.queries < 35 ? -40.0 : -230.0 + 35;
    const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
    const Values angles = rounded(reference::rotary_table(positions, shape.head_dim, 1e4), DType::f32);
    const Values x = b.draw({shape.tokens(), hidden}), table = b.draw({positions, hidden}), old = b.draw_f32(table.shape);
    const Tensor torigins = b.rank.put(origins, DType::i32), tangles = b.put_f32(angles), turned = b.put(qkv);
    const Tensor tx = b.put(x), placed = b.put(x), ttable = b.put(table), dtable = b.put_f32(old);
    b.team.run([&](TestRank& r) {
      r.ops().rotary(shape, {.qkv = turned, .cos_sin = tangles, .documents = torigins});
      r.ops().add_positions({.sequence = shape.queries, .table = ttable, .x = placed, .documents = torigins});
      r.ops().positions_grad({.sequence = shape.queries, .dy = tx, .dtable = dtable, .documents = torigins});
    });
    CHECK(relative_error(b.rank.get(turned), reference::rotary(shape, qkv, angles, false, origins)) < b.tolerance);
    CHECK(relative_error(b.rank.get(placed), reference::add_positions(0, shape.queries, table, x, origins)) < b.tolerance);
    const Values grad = reference::positions_grad({0, shape.queries, positions}, x, origins);
    CHECK(relative_error(b.rank.get(dtable), plus(old, grad)) < statistics_tolerance);
  });
}

}  // namespace
}  // namespace pipetrain::testing
