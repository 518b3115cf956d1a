// Dropout on every backend of this machine, as an operation and for attention's probabilities.
#include <cmath>
#include <utility>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

Dropout of_share(double share, PhiloxKey key = {11, 12}) {
  return {.key = key, .dropped = static_cast<std::uint32_t>(share * Dropout::draws), .first_sample = 5};
}

// Returns 1 for each kept element of a tensor of ones. Its tokens begin at `first_token`.
Values kept(Bench& b, const Dropout& dropout, const Shape& shape, std::int64_t first_token, std::int64_t sequence) {
  Values ones(shape);
  for (double& value : ones.data) value = 1;
  const Tensor x = b.put(ones), out = b.poisoned(shape);
  b.team.run([&](TestRank& r) {
    r.ops().dropout({.x = x, .out = out, .first_token = first_token, .sequence = sequence, .dropout = dropout});
  });
  Values values = b.rank.get(out);
  const double scale = rounded(dropout.scale(), b.dtype);
  for (double& value : values.data) {
    REQUIRE((value == 0 || value == scale));
    value = value == 0 ? 0 : 1;
  }
  return values;
}

double mean(const Values& values) {
  double sum = 0;
  for (const double value : values.data) sum += value;
  return sum / static_cast<double>(values.data.size());
}

}  // namespace

TEST_CASE("dropout drops its share, keeps the mean, and draws alike for every token, column, sample and step",
          "[ops][dropout]") {
  on_every_backend([](Bench& b) {
    const Shape shape{600, 200};
    const double count = 120000;
    for (const double share : {0.1, 0.5, 0.9}) {
      const Dropout dropout = of_share(share);
      const Values values = kept(b, dropout, shape, 0, 60);
      const auto within = [&](double found, double expected, double of) {
        CHECK(std::abs(found - expected) < 4.5 * std::sqrt(expected * (1 - expected) / of));
      };
      within(mean(values), 1 - share, count);
      for (std::int64_t col = 0; col < 200; col += 37) within(mean(col_range(values, col, col + 1)), 1 - share, 600);
      for (std::int64_t row = 0; row < 600; row += 61) within(mean(row_range(values, row, row + 1)), 1 - share, 200);
      // Elements are kept together as often as independent draws: with the next column, token and sample, and with
      // another step's.
      const auto together = [&](const Values& others, std::int64_t row_shift, std::int64_t col_shift) {
        double both = 0, pairs = 0;
        for (std::int64_t row = 0; row + row_shift < 600; ++row) {
          for (std::int64_t col = 0; col + col_shift < 200; ++col, ++pairs)
            both += values(row, col) * others(row + row_shift, col + col_shift);
        }
        within(both / pairs, (1 - share) * (1 - share), pairs / 2);
      };
      together(values, 0, 1);
      together(values, 0, 8);
      together(values, 1, 0);
      together(values, 60, 0);
      together(kept(b, of_share(share, {11, 13}), shape, 0, 60), 0, 0);
    }
  });
}

TEST_CASE("dropout matches the reference, adds the residual and is its own backward", "[ops][dropout]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 5}, Shape{33, 24}, Shape{130, 200}, Shape{9, 1600}}) {
      for (const auto& [first, sequence] : {std::pair<std::int64_t, std::int64_t>{0, 64}, {13, 5}}) {
        INFO(to_string(shape) << " from " << first << " in sequences of " << sequence);
        const Dropout dropout = of_share(0.3);
        const Values x = b.draw(shape), residual = b.draw(shape);
        const Tensor tx = b.put(x), tr = b.put(residual), out = b.poisoned(shape), sum = b.poisoned(shape);
        const Tensor x_in_place = b.put(x), residual_in_place = b.put(residual);
        const DropoutArgs args{.x = tx, .out = out, .first_token = first, .sequence = sequence, .dropout = dropout};
        b.team.run([&](TestRank& r) {
          r.ops().dropout(args);
          DropoutArgs other = args;
          other.residual = tr, other.out = sum;
          r.ops().dropout(other);
          other.residual = other.out = residual_in_place;
          r.ops().dropout(other);
          other = args;
          other.x = other.out = x_in_place;
          r.ops().dropout(other);
        });
        const Values expected = reference::dropout(dropout, first, sequence, x);
        CHECK(relative_error(b.rank.get(out), expected) <= b.tolerance * (shape.elements() > 1 ? 1 : 1e9));
        CHECK(relative_error(b.rank.get(sum), plus(expected, residual)) < b.tolerance);
        CHECK((b.rank.bytes(residual_in_place) == b.rank.bytes(sum)));
        CHECK((b.rank.bytes(x_in_place) == b.rank.bytes(out)));
      }
    }
  });
}

TEST_CASE("a shard of the tokens drops what the whole drops there", "[ops][dropout]") {
  on_every_backend([](Bench& b) {
    const Values whole = kept(b, of_share(0.4), {70, 48}, 0, 20);
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 33}, {33, 70}, {19, 21}})
      CHECK(relative_error(kept(b, of_share(0.4), {end - begin, 48}, begin, 20), row_range(whole, begin, end)) == 0);
    Dropout later = of_share(0.4);
    later.first_sample += 2;
    CHECK(relative_error(kept(b, later, {30, 48}, 0, 20), row_range(whole, 40, 70)) == 0);
  });
}

TEST_CASE("dropout of attention's probabilities matches the reference, heads of any rank", "[ops][dropout]") {
  on_every_backend([](Bench& b) {
    for (const SegmentShape& shape : {whole_sequences(2, 5, {3, 3, 8}), whole_sequences(1, 63, {4, 2, 16}),
                                      whole_sequences(2, 65, {6, 2, 64}), whole_sequences(1, 257, {2, 1, 128})}) {
      for (const std::uint32_t first_head : {0U, 4U}) {
        INFO(shape.batch << " x " << shape.queries << ", " << shape.heads << " heads from " << first_head);
        Dropout dropout = of_share(0.25);
        dropout.first_plane = first_head;
        const Values qkv = b.draw({shape.tokens(), shape.packed_cols()});
        const Values dout = b.draw({shape.tokens(), shape.heads * shape.head_dim});
        const Tensor tqkv = b.put(qkv), tdout = b.put(dout), out = b.poisoned(dout.shape), dqkv = b.poisoned(qkv.shape);
        const Tensor log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
        b.team.run([&](TestRank& r) {
          r.ops().attention(shape, {.q = tqkv, .kv = tqkv, .out = out, .log_sum_exp = log_sum_exp, .dropout = dropout});
          r.ops().attention_backward(shape, {.dout = tdout,
                                             .q = tqkv,
                                             .kv = tqkv,
                                             .out = out,
                                             .log_sum_exp = log_sum_exp,
                                             .dq = dqkv,
                                             .dkv = dqkv,
                                             .dropout = dropout});
        });
        const reference::Sight sight{.dropout = dropout};
        const auto forward = reference::attention(shape, qkv, sight);
        CHECK(relative_error(b.rank.get(out), forward.out) < b.tolerance);
        CHECK(relative_error(b.rank.get(log_sum_exp), forward.log_sum_exp) < statistics_tolerance);
        CHECK(relative_error(b.rank.get(dqkv), reference::attention_backward(shape, dout, qkv, sight)) < b.tolerance);
      }
    }
  });
}

}  // namespace pipetrain::testing
