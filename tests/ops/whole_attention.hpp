// Attention of a whole sequence, for tests that compute it in ranges of its queries and keys.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ops_bench.hpp"

namespace pipetrain::testing {

struct Stretch {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Returns the ranges between neighbouring cuts.
std::vector<Stretch> stretches(const std::vector<std::int64_t>& cuts);

// Returns these positions of every sequence and columns [first, first + cols), then `extra` rows of a large number.
Values cut(const SegmentShape& shape, const Values& all, const Stretch& of, std::int64_t first, std::int64_t cols,
           std::int64_t extra = 0);

struct Whole {
  SegmentShape shape;
  Values qkv, dout;
  reference::Sight sight;
  std::int64_t query_cols() const { return shape.heads * shape.head_dim; }
  std::int64_t key_cols() const { return 2 * shape.kv_heads * shape.head_dim; }
};

// The sight of queries: documents of this many tokens, or, if it is 0, one a sequence; `dropped` of the draws drop
// probabilities.
reference::Sight sight_of(const SegmentShape& shape, std::int64_t document, std::uint32_t dropped);

// The results of one range of queries with every range of keys.
struct Queries {
  Tensor q, dout, documents, out, rounded, log_sum_exp, part, part_sums, dq;
};

SegmentShape segment(const Whole& whole, const Stretch& queries, const Stretch& keys);
Queries make_queries(Bench& b, const Whole& whole, const Stretch& of);

}  // namespace pipetrain::testing
