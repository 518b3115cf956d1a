#include "ops/whole_attention.hpp"

namespace pipetrain::testing {

std::vector<Stretch> stretches(const std::vector<std::int64_t>& cuts) {
  std::vector<Stretch> all;
  for (std::size_t i = 1; i < cuts.size(); ++i) all.push_back({cuts[i - 1], cuts[i]});
  return all;
}

Values cut(const SegmentShape& shape, const Values& all, const Stretch& of, std::int64_t first, std::int64_t cols,
           std::int64_t extra) {
  Values some({shape.batch * (of.size() + extra), cols});
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t s = 0; s < of.size() + extra; ++s) {
      for (std::int64_t i = 0; i < cols; ++i)
        some(b * (of.size() + extra) + s, i) = s < of.size() ? all(b * shape.queries + of.begin + s, first + i) : 8192;
    }
  }
  return some;
}

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

}  // namespace pipetrain::testing
