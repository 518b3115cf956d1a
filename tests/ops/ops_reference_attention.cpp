// Rotary positions, and attention over heads packed side by side.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops_reference.hpp"

namespace pipetrain::testing::reference {

namespace {

// The offset of a head's values of a token in the packed matrix.
struct Packed {
  const SegmentShape& shape;
  std::int64_t row(std::int64_t b, std::int64_t s) const { return b * shape.queries + s; }
  std::int64_t kv_of(std::int64_t head) const { return head / (shape.heads / shape.kv_heads); }
  std::int64_t q(std::int64_t head) const { return head * shape.head_dim; }
  std::int64_t k(std::int64_t head) const { return (shape.heads + kv_of(head)) * shape.head_dim; }
  std::int64_t v(std::int64_t head) const { return (shape.heads + shape.kv_heads + kv_of(head)) * shape.head_dim; }
};

// The offset of a vector in a matrix, along a row.
struct VectorAt {
  const Values& matrix;
  std::int64_t row, col;
};

double dot(const VectorAt& a, const VectorAt& b, std::int64_t count) {
  const double *x = a.matrix.at(a.row, a.col), *y = b.matrix.at(b.row, b.col);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

struct Query {
  std::int64_t b, head, s;
};

// Returns true if the query attends to this key, which does not come after it.
bool sees(const SegmentShape& shape, const Values& documents, const Query& query, std::int64_t key) {
  const std::int64_t document =
      documents.data.empty()
          ? 0
          : static_cast<std::int64_t>(documents.data[static_cast<std::size_t>(query.b * shape.queries + query.s)]);
  if (key < document) return false;
  const std::int64_t position = query.s - document, other = key - document;
  const bool in_stripe = shape.period > 0 && other % shape.period >= shape.period - shape.stripe;
  if (shape.window == 0 || other < shape.sinks || in_stripe) return true;
  if (shape.block == 0) return other > position - shape.window;
  return other / shape.block > position / shape.block - shape.window / shape.block;
}

// Returns the factor of each of a query's probabilities.
std::vector<double> factors(const Dropout& dropout, const Query& query) {
  std::vector<double> all(static_cast<std::size_t>(query.s + 1), 1);
  if (!dropout.active()) return all;
  for (std::size_t j = 0; j < all.size(); ++j)
    all[j] = dropout_factor(dropout, {query.b, query.s, static_cast<std::int64_t>(j), query.head});
  return all;
}

double score_scale(const SegmentShape& shape) {
  return shape.scale != 0 ? shape.scale : 1 / std::sqrt(static_cast<double>(shape.head_dim));
}

// Returns the causal probabilities of one query, 0 for keys that it does not attend to, and their log-sum-exp.
std::vector<double> probabilities(const SegmentShape& shape, const Values& qkv, const Values& documents, const Query& query,
                                  double& log_sum_exp) {
  const Packed at{shape};
  const auto [b, head, s] = query;
  std::vector<double> p(static_cast<std::size_t>(s + 1), -std::numeric_limits<double>::infinity());
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t j = 0; j <= s; ++j) {
    if (!sees(shape, documents, query, j)) continue;
    const double score = dot({qkv, at.row(b, s), at.q(head)}, {qkv, at.row(b, j), at.k(head)}, shape.head_dim);
    p[static_cast<std::size_t>(j)] = score * score_scale(shape);
    largest = std::max(largest, p[static_cast<std::size_t>(j)]);
  }
  for (double& value : p) sum += value = std::exp(value - largest);
  for (double& value : p) value /= sum;
  log_sum_exp = largest + std::log(sum);
  return p;
}

}  // namespace

Values rotary_table(std::int64_t sequence, std::int64_t head_dim, double theta) {
  const std::int64_t half = head_dim / 2;
  Values table(Shape{sequence, 2, half});
  for (std::int64_t s = 0; s < sequence; ++s) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(s) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      table(s, i) = std::cos(angle);
      table(s, half + i) = std::sin(angle);
    }
  }
  return table;
}

Values rotary(const SegmentShape& shape, Values qkv, const Values& cos_sin, bool inverse, const Values& documents) {
  const std::int64_t half = cos_sin.shape[2];
  for (std::int64_t t = 0; t < shape.tokens(); ++t) {
    const double begin = documents.data.empty() ? 0 : documents.data[static_cast<std::size_t>(t)];
    const std::int64_t position = t % shape.queries - static_cast<std::int64_t>(begin);
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double c = cos_sin(position, i), s = inverse ? -cos_sin(position, half + i) : cos_sin(position, half + i);
        double& first = qkv(t, head * shape.head_dim + i);
        double& second = qkv(t, head * shape.head_dim + half + i);
        const double a = first, b = second;
        first = a * c - b * s;
        second = b * c + a * s;
      }
    }
  }
  return qkv;
}

Attention attention(const SegmentShape& shape, const Values& qkv, const Sight& sight) {
  const Packed at{shape};
  Attention result{Values(Shape{shape.tokens(), shape.heads * shape.head_dim}),
                   Values(Shape{shape.batch, shape.heads, shape.queries})};
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      for (std::int64_t s = 0; s < shape.queries; ++s) {
        const auto p =
            probabilities(shape, qkv, sight.documents, {b, head, s}, result.log_sum_exp(b, head * shape.queries + s));
        const auto kept = factors(sight.dropout, {b, head, s});
        for (std::int64_t j = 0; j <= s; ++j) {
          const auto jj = static_cast<std::size_t>(j);
          const double* value = qkv.at(at.row(b, j), at.v(head));
          double* out = result.out.at(at.row(b, s), at.q(head));
          for (std::int64_t i = 0; i < shape.head_dim; ++i) out[i] += p[jj] * kept[jj] * value[i];
        }
      }
    }
  }
  return result;
}

Values attention_backward(const SegmentShape& shape, const Values& dout, const Values& qkv, const Sight& sight) {
  const Packed at{shape};
  const double scale = score_scale(shape);
  Values grad(qkv.shape);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      for (std::int64_t s = 0; s < shape.queries; ++s) {
        double unused = 0;
        const auto p = probabilities(shape, qkv, sight.documents, {b, head, s}, unused);
        const auto kept = factors(sight.dropout, {b, head, s});
        std::vector<double> dp(p.size());
        double mean = 0;
        for (std::int64_t j = 0; j <= s; ++j) {
          const auto jj = static_cast<std::size_t>(j);
          dp[jj] = kept[jj] * dot({dout, at.row(b, s), at.q(head)}, {qkv, at.row(b, j), at.v(head)}, shape.head_dim);
          mean += p[jj] * dp[jj];
        }
        for (std::int64_t j = 0; j <= s; ++j) {
          const auto jj = static_cast<std::size_t>(j);
          const double ds = p[jj] * (dp[jj] - mean) * scale;
          const double *q = qkv.at(at.row(b, s), at.q(head)), *k = qkv.at(at.row(b, j), at.k(head));
          const double* out = dout.at(at.row(b, s), at.q(head));
          double *dq = grad.at(at.row(b, s), at.q(head)), *dk = grad.at(at.row(b, j), at.k(head));
          double* dv = grad.at(at.row(b, j), at.v(head));
          for (std::int64_t i = 0; i < shape.head_dim; ++i) {
            dq[i] += ds * k[i];
            dk[i] += ds * q[i];
            dv[i] += p[jj] * kept[jj] * out[i];
          }
        }
      }
    }
  }
  return grad;
}

}  // namespace pipetrain::testing::reference
