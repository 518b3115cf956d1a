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

// A range of columns in a row of scores.
struct Columns {
  std::int64_t begin, end;
};

// Keys that follow one another, whose scores are the columns from `at` on.
struct KeyRun {
  std::int64_t begin, end, at;
  std::int64_t size() const { return end - begin; }
};

// A range of query rows and the keys that any of them attends to, in runs. A pattern without gaps has one run.
class Block {
 public:
  Block(const Sight& sight, std::int64_t first_row)
      : first(first_row), rows(std::min(block, sight.shape().queries - first_row)), sight_(sight) {
    const std::int64_t begin = sight.begin(first_row), end = sight.end(first_row + rows - 1);
    if (begin >= end) return;
    if (sight.shape().is_sparse()) {
      find_runs(begin, end);
    } else {
      runs.push_back({begin, end, 0});
      keys = end - begin;
    }
  }

  const std::int64_t first, rows;
  std::vector<KeyRun> runs;
  std::int64_t keys = 0;  // of all runs

  // Returns the columns that a query attends to, valid until the next call.
  const std::vector<Columns>& visible(std::int64_t query) {
    visible_.clear();
    if (runs.empty()) return visible_;
    if (!sight_.shape().is_sparse()) {
      visible_.push_back({sight_.begin(query) - runs[0].begin, sight_.end(query) - runs[0].begin});
      return visible_;
    }
    sight_.for_each_range(query, [&](std::int64_t begin, std::int64_t end) {
      const auto run = std::find_if(runs.begin(), runs.end(), [begin](const KeyRun& one) { return begin < one.end; });
      visible_.push_back({run->at + begin - run->begin, run->at + end - run->begin});
    });
    return visible_;
  }
  // Writes the dropout factors of the columns that a query attends to.
  void factors(std::int64_t head, std::int64_t query, const std::vector<Columns>& visible, float* out) const {
    for (const Columns& some : visible) {
      const auto run =
          std::find_if(runs.begin(), runs.end(), [&](const KeyRun& one) { return some.begin < one.at + one.size(); });
      sight_.factors(head, query, run->begin + some.begin - run->at, some.end - some.begin, out + some.begin);
    }
  }

 private:
  void find_runs(std::int64_t begin, std::int64_t end) {
    std::vector<char> seen(static_cast<std::size_t>(end - begin), 0);
    for (std::int64_t row = first; row < first + rows; ++row)
      sight_.for_each_range(row, [&](std::int64_t from, std::int64_t to) {
        std::fill(seen.begin() + (from - begin), seen.begin() + (to - begin), 1);
      });
    for (auto at = seen.begin(); at != seen.end();) {
      at = std::find(at, seen.end(), 1);
      const auto stop = std::find(at, seen.end(), 0);
      if (at != stop) runs.push_back({begin + (at - seen.begin()), begin + (stop - seen.begin()), keys});
      keys += stop - at;
      at = stop;
    }
  }

  const Sight& sight_;
  std::vector<Columns> visible_;
};

void clear_unseen(float* row, const std::vector<Columns>& visible, std::int64_t keys) {
  std::int64_t reached = 0;
  for (const Columns& some : visible) {
    std::fill(row + reached, row + some.begin, 0.0F);
    reached = some.end;
  }
  std::fill(row + reached, row + keys, 0.0F);
}

// Turns the scores of one query row into probabilities; returns log sum exp.
float softmax_row(float* row, const std::vector<Columns>& visible, std::int64_t keys) {
  float most = -std::numeric_limits<float>::infinity();
  for (const Columns& some : visible)
    if (some.end > some.begin) most = std::max(most, lane_max(row + some.begin, some.end - some.begin));
  double total = 0;
  for (const Columns& some : visible) {
    float* const scores = row + some.begin;
    const std::int64_t count = some.end - some.begin;
    for (std::int64_t i = 0; i < count; ++i) scores[i] = fast_exp(scores[i] - most);
    total += lane_sum<double>(count, [scores](std::int64_t i) { return static_cast<double>(scores[i]); });
  }
  const auto sum = static_cast<float>(total);
  if (sum == 0) {  // no key: the largest of some has an exponential of 1
    clear_unseen(row, {}, keys);
    return -std::numeric_limits<float>::infinity();
  }
  const float scale = 1.0F / sum;
  for (const Columns& some : visible)
    for (std::int64_t i = some.begin; i < some.end; ++i) row[i] *= scale;
  clear_unseen(row, visible, keys);
  return most + std::log(sum);
}

Head columns_of(Head scores, const KeyRun& run) { return {scores.data + run.at, scores.stride}; }

void clear_rows(Head head, const Block& of, std::int64_t dim) {
  for (std::int64_t row = of.first; row < of.first + of.rows; ++row) std::fill_n(head.row(row), dim, 0.0F);
}

// Turns the scores and dP of one row into P, multiplied by the dropout factors, and dS = P (dP - sum(dO O)) /
// sqrt(D), in which dP too is multiplied by the factors.
struct GradientRow {
  float *scores, *dprobs;  // [keys]
  const std::vector<Columns>& visible;
  std::int64_t keys;
  const float* factors;  // one for each key; null: nothing is dropped
  float log_sum_exp, dot, scale;
};
void gradient_columns(const GradientRow& of, const Columns& some) {
  const auto [scores, dprobs, visible, keys, factors, log_sum_exp, dot, scale] = of;
  if (factors == nullptr) {
    for (std::int64_t i = some.begin; i < some.end; ++i) {
      scores[i] = fast_exp(scores[i] - log_sum_exp);
      dprobs[i] = scores[i] * (dprobs[i] - dot) * scale;
    }
  } else {
    for (std::int64_t i = some.begin; i < some.end; ++i) {
      const float probability = fast_exp(scores[i] - log_sum_exp);
      dprobs[i] = probability * (dprobs[i] * factors[i] - dot) * scale;
      scores[i] = probability * factors[i];
    }
  }
}
void gradient_row(const GradientRow& of) {
  for (const Columns& some : of.visible) gradient_columns(of, some);
  clear_unseen(of.scores, of.visible, of.keys);
  clear_unseen(of.dprobs, of.visible, of.keys);
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
    Block of(task.sight, first);
    if (of.keys == 0) {
      clear_rows(out, of, values);
      if (log_sum_exp != nullptr) std::fill_n(log_sum_exp + first, of.rows, -std::numeric_limits<float>::infinity());
      continue;
    }
    const Head q{in.q.row(first), in.q.stride};
    for (const KeyRun& run : of.runs)
      products.nt({of.rows, run.size(), dim}, scale, q, {in.k.row(run.begin), in.k.stride}, columns_of(scores, run));
    for (std::int64_t row = 0; row < of.rows; ++row) {
      const std::int64_t query = first + row;
      const std::vector<Columns>& visible = of.visible(query);
      const float sum = softmax_row(scores.row(row), visible, of.keys);
      if (log_sum_exp != nullptr) log_sum_exp[query] = sum;
      if (!task.sight.drops()) continue;
      of.factors(task.head, query, visible, factors);
      for (const Columns& some : visible)
        for (std::int64_t i = some.begin; i < some.end; ++i) scores.row(row)[i] *= factors[i];
    }
    for (const KeyRun& run : of.runs)
      products.nn({of.rows, values, run.size()}, columns_of(scores, run), {in.v.row(run.begin), in.v.stride},
                  {out.row(first), out.stride}, run.at > 0 ? Accumulate::yes : Accumulate::no);
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
    Block of(task.sight, first);
    if (of.keys == 0) {
      if (accumulate_dq == Accumulate::no) clear_rows(grad.q, of, dim);
      continue;
    }
    const Head q{in.q.row(first), in.q.stride}, dout{outputs.dout.row(first), outputs.dout.stride};
    for (const KeyRun& run : of.runs) {
      products.nt({of.rows, run.size(), dim}, scale, q, {in.k.row(run.begin), in.k.stride}, columns_of(probs, run));
      products.nt({of.rows, run.size(), values}, 1, dout, {in.v.row(run.begin), in.v.stride}, columns_of(dprobs, run));
    }
    for (std::int64_t row = 0; row < of.rows; ++row) {
      const std::int64_t query = first + row;
      const std::vector<Columns>& visible = of.visible(query);
      if (factors != nullptr) of.factors(task.head, query, visible, factors);
      gradient_row({probs.row(row), dprobs.row(row), visible, of.keys, factors, outputs.log_sum_exp[query],
                    dot_of(outputs.dout.row(query), outputs.out.row(query), values), scale});
    }
    for (const KeyRun& run : of.runs) {
      const Head k{in.k.row(run.begin), in.k.stride}, of_scores = columns_of(dprobs, run);
      products.nn({of.rows, dim, run.size()}, of_scores, k, {grad.q.row(first), grad.q.stride},
                  run.at > 0 ? Accumulate::yes : accumulate_dq);
      products.add_tn({run.size(), dim, of.rows}, of_scores, q, {grad.k.row(run.begin), grad.k.stride});
      products.add_tn({run.size(), values, of.rows}, columns_of(probs, run), dout, {grad.v.row(run.begin), grad.v.stride});
    }
  }
}

}  // namespace pipetrain::cpu
