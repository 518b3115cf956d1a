// A tile multiplies blocks of query rows with all keys that they attend to, so that a thread holds at most
// block x keys scores. The backward recomputes probabilities from log_sum_exp (Dao et al. 2022), and also
// repeats the draws of dropout.
#include "ops/cpu/attention_head.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/dropout_factors.hpp"
#include "ops/cpu/sgemm.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {

void Sight::factors(std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t count, float* out) const {
  const DropoutRow row{.sample = sample_,
                       .row = static_cast<std::uint32_t>(shape_.first_query + query),
                       .plane = dropout_.first_plane + static_cast<std::uint32_t>(head)};
  dropout_factors(dropout_, row, shape_.first_key + first, count, out);
}

namespace {

constexpr std::int64_t block = 64;  // query rows

// Returns this thread's scratch memory, which is kept for the next tile.
float* scratch(std::size_t which, std::int64_t elements) {
  thread_local std::vector<float> memory[3];
  if (memory[which].size() < static_cast<std::size_t>(elements)) memory[which].resize(static_cast<std::size_t>(elements));
  return memory[which].data();
}

std::int64_t scores_of(const SegmentShape& shape) { return shape.batch * shape.heads * shape.queries * shape.keys; }

// The matrix products of one attention. Small ones are computed in fp64.
class Products {
 public:
  explicit Products(const HeadTask& task)
      : gemm_(scores_of(task.sight.shape()) * task.sight.shape().head_dim <= small_products ? precise_gemm : sgemm) {}

  struct Size {
    std::int64_t m, n, k;
  };
  // c [m, n] = alpha a [m, k] b^T [n, k]
  void nt(const Size& size, float alpha, Head a, Head b, Head c) const {
    gemm_({size.m, size.n, size.k, {a.data, a.stride}, {b.data, b.stride, true}, c.data, c.stride, alpha, 0});
  }
  // c [m, n] = a [m, k] b [k, n], or c += with Accumulate::yes
  void nn(const Size& size, Head a, Head b, Head c, Accumulate accumulate = Accumulate::no) const {
    const float beta = accumulate == Accumulate::yes ? 1.0F : 0.0F;
    gemm_({size.m, size.n, size.k, {a.data, a.stride}, {b.data, b.stride}, c.data, c.stride, 1, beta});
  }
  // c [m, n] += a^T [k, m] b [k, n]
  void add_tn(const Size& size, Head a, Head b, Head c) const {
    gemm_({size.m, size.n, size.k, {a.data, a.stride, true}, {b.data, b.stride}, c.data, c.stride, 1, 1});
  }

 private:
  decltype(&sgemm) gemm_;
};

// The keys [begin, end) of a row of scores that its query attends to.
struct Visible {
  std::int64_t begin, end, keys;
};

// A range of query rows and the keys that any of them attends to: [key0, key0 + keys).
struct Block {
  std::int64_t first, rows, key0, keys;
  Block(const Sight& sight, std::int64_t first_row)
      : first(first_row),
        rows(std::min(block, sight.shape().queries - first_row)),
        key0(sight.begin(first_row)),
        keys(sight.end(first_row + rows - 1) - key0) {}
  Visible visible(const Sight& sight, std::int64_t query) const {
    return {sight.begin(query) - key0, sight.end(query) - key0, keys};
  }
};

void clear_unseen(float* row, const Visible& visible) {
  std::fill(row, row + visible.begin, 0.0F);
  std::fill(row + visible.end, row + visible.keys, 0.0F);
}

// Turns the scores of one query row into probabilities; returns log sum exp.
float softmax_row(float* row, const Visible& visible) {
  float* const scores = row + visible.begin;
  const std::int64_t count = visible.end - visible.begin;
  if (count == 0) {
    clear_unseen(row, visible);
    return -std::numeric_limits<float>::infinity();
  }
  const float most = lane_max(scores, count);
  for (std::int64_t i = 0; i < count; ++i) scores[i] = fast_exp(scores[i] - most);
  const auto sum =
      static_cast<float>(lane_sum<double>(count, [scores](std::int64_t i) { return static_cast<double>(scores[i]); }));
  const float scale = 1.0F / sum;
  for (std::int64_t i = 0; i < count; ++i) scores[i] *= scale;
  clear_unseen(row, visible);
  return most + std::log(sum);
}

void clear_rows(Head head, const Block& of, std::int64_t dim) {
  for (std::int64_t row = of.first; row < of.first + of.rows; ++row) std::fill_n(head.row(row), dim, 0.0F);
}

// Turns the scores and dP of one row into P, multiplied by the dropout factors, and dS = P (dP - sum(dO O)) /
// sqrt(D), in which dP too is multiplied by the factors.
struct GradientRow {
  float *scores, *dprobs;  // [keys]
  Visible visible;
  const float* factors;  // one for each key; null: nothing is dropped
  float log_sum_exp, dot, scale;
};
void gradient_row(const GradientRow& of) {
  const auto [scores, dprobs, visible, factors, log_sum_exp, dot, scale] = of;
  if (factors == nullptr) {
    for (std::int64_t i = visible.begin; i < visible.end; ++i) {
      scores[i] = fast_exp(scores[i] - log_sum_exp);
      dprobs[i] = scores[i] * (dprobs[i] - dot) * scale;
    }
  } else {
    for (std::int64_t i = visible.begin; i < visible.end; ++i) {
      const float probability = fast_exp(scores[i] - log_sum_exp);
      dprobs[i] = probability * (dprobs[i] * factors[i] - dot) * scale;
      scores[i] = probability * factors[i];
    }
  }
  clear_unseen(scores, visible);
  clear_unseen(dprobs, visible);
}

float dot_of(const float* a, const float* b, std::int64_t dim) {
  return static_cast<float>(lane_sum<double>(dim, [a, b](std::int64_t i) { return static_cast<double>(a[i]) * b[i]; }));
}

}  // namespace

void forward_head(const HeadTask& task, const Heads& in, Head out, float* log_sum_exp) {
  const std::int64_t most = task.sight.shape().keys, dim = task.sight.shape().head_dim, values = task.sight.shape().value_dim();
  const float scale = task.sight.shape().score_scale();
  const Products products(task);
  const Head scores{scratch(0, block * most), most};
  float* const factors = scratch(2, most);
  for (std::int64_t first = 0; first < task.sight.shape().queries; first += block) {
    const Block of(task.sight, first);
    if (of.keys == 0) {
      clear_rows(out, of, values);
      if (log_sum_exp != nullptr) std::fill_n(log_sum_exp + first, of.rows, -std::numeric_limits<float>::infinity());
      continue;
    }
    products.nt({of.rows, of.keys, dim}, scale, {in.q.row(first), in.q.stride}, {in.k.row(of.key0), in.k.stride}, scores);
    for (std::int64_t row = 0; row < of.rows; ++row) {
      const std::int64_t query = first + row;
      const Visible visible = of.visible(task.sight, query);
      const float sum = softmax_row(scores.row(row), visible);
      if (log_sum_exp != nullptr) log_sum_exp[query] = sum;
      if (!task.sight.drops()) continue;
      task.sight.factors(task.head, query, of.key0, visible.end, factors);
      for (std::int64_t i = visible.begin; i < visible.end; ++i) scores.row(row)[i] *= factors[i];
    }
    products.nn({of.rows, values, of.keys}, scores, {in.v.row(of.key0), in.v.stride}, {out.row(first), out.stride});
  }
}

void backward_head(const HeadTask& task, const Heads& in, const HeadOutputs& outputs, const Heads& grad,
                   Accumulate accumulate_dq) {
  const std::int64_t most = task.sight.shape().keys, dim = task.sight.shape().head_dim, values = task.sight.shape().value_dim();
  const float scale = task.sight.shape().score_scale();
  const Products products(task);
  const Head probs{scratch(0, block * most), most}, dprobs{scratch(1, block * most), most};
  float* const factors = task.sight.drops() ? scratch(2, most) : nullptr;
  for (std::int64_t first = 0; first < task.sight.shape().queries; first += block) {
    const Block of(task.sight, first);
    if (of.keys == 0) {
      if (accumulate_dq == Accumulate::no) clear_rows(grad.q, of, dim);
      continue;
    }
    const Head q{in.q.row(first), in.q.stride}, dout{outputs.dout.row(first), outputs.dout.stride};
    const Head k{in.k.row(of.key0), in.k.stride}, v{in.v.row(of.key0), in.v.stride};
    products.nt({of.rows, of.keys, dim}, scale, q, k, probs);
    products.nt({of.rows, of.keys, values}, 1, dout, v, dprobs);
    for (std::int64_t row = 0; row < of.rows; ++row) {
      const std::int64_t query = first + row;
      const Visible visible = of.visible(task.sight, query);
      if (factors != nullptr) task.sight.factors(task.head, query, of.key0, visible.end, factors);
      gradient_row({probs.row(row), dprobs.row(row), visible, factors, outputs.log_sum_exp[query],
                    dot_of(outputs.dout.row(query), outputs.out.row(query), values), scale});
    }
    products.nn({of.rows, dim, of.keys}, dprobs, k, {grad.q.row(first), grad.q.stride}, accumulate_dq);
    products.add_tn({of.keys, dim, of.rows}, dprobs, q, {grad.k.row(of.key0), grad.k.stride});
    products.add_tn({of.keys, values, of.rows}, probs, dout, {grad.v.row(of.key0), grad.v.stride});
  }
}

}  // namespace pipetrain::cpu
