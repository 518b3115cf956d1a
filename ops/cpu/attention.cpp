// Shapes: S sequence, D head size. One tile of work is one head (forward) or one key-value head with its group of query heads
// (backward). A tile multiplies blocks of query rows with all keys up to them, so that a thread holds at most block x S scores.
// Probabilities are recomputed in the backward from log_sum_exp (Dao et al. 2022), and so are the draws of dropout.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/dropout_factors.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/sgemm.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {
namespace {

constexpr std::int64_t block = 64;  // query rows

// A [S, D] matrix of floats inside a larger one.
struct Head {
  float* data;
  std::int64_t stride;
  float* row(std::int64_t at) const { return data + at * stride; }
};

struct Heads {
  Head q, k, v;
};

// A head where operations have it: rows and columns of a packed tensor of any activation type.
struct Place {
  const Tensor& packed;
  std::int64_t first_row, first_col, rows, dim;
  char* row(std::int64_t at) const { return element_at(packed, (first_row + at) * packed.cols() + first_col); }
};

// `plane`: counted over query, key and value heads.
Place head_of(const AttentionShape& shape, const Tensor& packed, std::int64_t batch, std::int64_t plane) {
  return {packed, batch * shape.sequence, plane * shape.head_dim, shape.sequence, shape.head_dim};
}

struct Planes {
  std::int64_t q, k, v;
};
Planes planes_of(const AttentionShape& shape, std::int64_t head) {
  const std::int64_t kv = head / (shape.heads / shape.kv_heads);
  return {head, shape.heads + kv, shape.heads + shape.kv_heads + kv};
}

// A head as floats for the length of a tile: there, or widened in memory of the thread.
class WideHead {
 public:
  explicit WideHead(const Place& place)
      : place_(place),
        there_(place.packed.dtype == DType::f32),
        wide_(there_ ? 0 : place.rows * place.dim),
        head_(there_ ? Head{reinterpret_cast<float*>(place.row(0)), place.packed.cols()} : Head{wide_.data(), place.dim}) {}

  const WideHead& load() const {
    if (there_) return *this;
    for (std::int64_t row = 0; row < place_.rows; ++row)
      widen(place_.packed.dtype, place_.row(row), place_.dim, head_.row(row));
    return *this;
  }
  // Rounds what was written.
  void store() const {
    if (there_) return;
    for (std::int64_t row = 0; row < place_.rows; ++row)
      narrow(place_.packed.dtype, head_.row(row), place_.dim, place_.row(row));
  }
  operator Head() const { return head_; }

 private:
  Place place_;
  bool there_;
  Floats wide_;
  Head head_;
};

// Scratch of the thread, kept for the next tile.
float* scratch(std::size_t which, std::int64_t elements) {
  thread_local std::vector<float> memory[3];
  if (memory[which].size() < static_cast<std::size_t>(elements)) memory[which].resize(static_cast<std::size_t>(elements));
  return memory[which].data();
}

// The matrix products of one operation.
class Products {
 public:
  explicit Products(const AttentionShape& shape) : Products(shape, shape.sequence) {}
  // keys: that the last query of a sequence sees
  Products(const AttentionShape& shape, std::int64_t keys)
      : gemm_(shape.tokens() * keys * shape.heads * shape.head_dim <= small_products ? precise_gemm : sgemm) {}

  struct Size {
    std::int64_t m, n, k;
  };
  // c [m, n] = alpha a [m, k] b^T [n, k]
  void nt(const Size& size, float alpha, Head a, Head b, Head c) const {
    gemm_({size.m, size.n, size.k, {a.data, a.stride}, {b.data, b.stride, true}, c.data, c.stride, alpha, 0});
  }
  // c [m, n] = a [m, k] b [k, n]
  void nn(const Size& size, Head a, Head b, Head c) const {
    gemm_({size.m, size.n, size.k, {a.data, a.stride}, {b.data, b.stride}, c.data, c.stride, 1, 0});
  }
  // c [m, n] += a^T [k, m] b [k, n]
  void add_tn(const Size& size, Head a, Head b, Head c) const {
    gemm_({size.m, size.n, size.k, {a.data, a.stride, true}, {b.data, b.stride}, c.data, c.stride, 1, 1});
  }

 private:
  decltype(&sgemm) gemm_;
};

// What a sequence's queries see, and what is dropped of that.
class Sight {
 public:
  Sight(const AttentionShape& shape, const std::optional<Tensor>& documents, const Dropout& dropout, std::int64_t batch)
      : documents_(documents ? documents->as<std::int32_t>() + batch * shape.sequence : nullptr),
        dropout_(dropout),
        sample_(dropout.first_sample + static_cast<std::uint32_t>(batch)) {}

  // The first key that this query and all later ones see. It sees those from there to itself.
  std::int64_t begin(std::int64_t query) const { return documents_ == nullptr ? 0 : documents_[query]; }
  bool drops() const { return dropout_.active(); }
  // What the probabilities of this query's keys first, first + 1, ... are multiplied with.
  void factors(std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t count, float* out) const {
    const DropoutRow row{.sample = sample_,
                         .row = static_cast<std::uint32_t>(query),
                         .plane = dropout_.first_plane + static_cast<std::uint32_t>(head)};
    dropout_factors(dropout_, row, first, count, out);
  }

 private:
  const std::int32_t* documents_;
  Dropout dropout_;
  std::uint32_t sample_;
};

// The keys of a row of scores: those that its query sees are [begin, end) of them.
struct Visible {
  std::int64_t begin, end, keys;
};

void clear_unseen(float* row, const Visible& visible) {
  std::fill(row, row + visible.begin, 0.0F);
  std::fill(row + visible.end, row + visible.keys, 0.0F);
}

// Turns the scores of one query row into probabilities; returns log sum exp.
float softmax_row(float* row, const Visible& visible) {
  float* const scores = row + visible.begin;
  const std::int64_t count = visible.end - visible.begin;
  const float most = lane_max(scores, count);
  for (std::int64_t i = 0; i < count; ++i) scores[i] = fast_exp(scores[i] - most);
  const auto sum =
      static_cast<float>(lane_sum<double>(count, [scores](std::int64_t i) { return static_cast<double>(scores[i]); }));
  const float scale = 1.0F / sum;
  for (std::int64_t i = 0; i < count; ++i) scores[i] *= scale;
  clear_unseen(row, visible);
  return most + std::log(sum);
}

// One head of one sequence.
struct HeadTask {
  const AttentionShape& shape;
  const Sight& sight;
  std::int64_t head;
};

void forward_head(const HeadTask& task, const Heads& in, Head out, float* log_sum_exp) {
  const std::int64_t sequence = task.shape.sequence, dim = task.shape.head_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  const Products products(task.shape);
  const Head scores{scratch(0, block * sequence), sequence};
  float* const factors = scratch(2, sequence);
  for (std::int64_t first = 0; first < sequence; first += block) {
    const std::int64_t rows = std::min(block, sequence - first), key0 = task.sight.begin(first), keys = first + rows - key0;
    products.nt({rows, keys, dim}, scale, {in.q.row(first), in.q.stride}, {in.k.row(key0), in.k.stride}, scores);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t query = first + row;
      const Visible visible{task.sight.begin(query) - key0, query + 1 - key0, keys};
      log_sum_exp[query] = softmax_row(scores.row(row), visible);
      if (!task.sight.drops()) continue;
      task.sight.factors(task.head, query, key0, visible.end, factors);
      for (std::int64_t i = visible.begin; i < visible.end; ++i) scores.row(row)[i] *= factors[i];
    }
    products.nn({rows, dim, keys}, scores, {in.v.row(key0), in.v.stride}, {out.row(first), out.stride});
  }
}

// Scores and dP of one row become P, times the factors of dropout, and dS = P (dP - sum(dO O)) / sqrt(D), where dP is times
// the factors too.
struct GradientRow {
  float *scores, *dprobs;  // [keys]
  Visible visible;
  const float* factors;  // of each key; null: nothing is dropped
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

struct HeadOutputs {
  Head dout, out;
  const float* log_sum_exp;
};

// One query head's share: writes dq, adds to dk and dv.
void backward_head(const HeadTask& task, const Heads& in, const HeadOutputs& of, const Heads& grad) {
  const std::int64_t sequence = task.shape.sequence, dim = task.shape.head_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  const Products products(task.shape);
  const Head probs{scratch(0, block * sequence), sequence}, dprobs{scratch(1, block * sequence), sequence};
  float* const factors = task.sight.drops() ? scratch(2, sequence) : nullptr;
  for (std::int64_t first = 0; first < sequence; first += block) {
    const std::int64_t rows = std::min(block, sequence - first), key0 = task.sight.begin(first), keys = first + rows - key0;
    const Head q{in.q.row(first), in.q.stride}, dout{of.dout.row(first), of.dout.stride};
    const Head k{in.k.row(key0), in.k.stride}, v{in.v.row(key0), in.v.stride};
    products.nt({rows, keys, dim}, scale, q, k, probs);
    products.nt({rows, keys, dim}, 1, dout, v, dprobs);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t query = first + row;
      const Visible visible{task.sight.begin(query) - key0, query + 1 - key0, keys};
      if (factors != nullptr) task.sight.factors(task.head, query, key0, visible.end, factors);
      gradient_row({probs.row(row), dprobs.row(row), visible, factors, of.log_sum_exp[query],
                    dot_of(of.dout.row(query), of.out.row(query), dim), scale});
    }
    products.nn({rows, dim, keys}, dprobs, k, {grad.q.row(first), grad.q.stride});
    products.add_tn({keys, dim, rows}, dprobs, q, {grad.k.row(key0), grad.k.stride});
    products.add_tn({keys, dim, rows}, probs, dout, {grad.v.row(key0), grad.v.stride});
  }
}

// Queries with `before` keys in front of the first one's own.
void cached_head(const AttentionShape& shape, std::int64_t before, const Heads& in, Head out) {
  const std::int64_t dim = shape.head_dim, most = before + shape.sequence;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  const Products products(shape, most);
  const Head scores{scratch(0, block * most), most};
  for (std::int64_t first = 0; first < shape.sequence; first += block) {
    const std::int64_t rows = std::min(block, shape.sequence - first), keys = before + first + rows;
    products.nt({rows, keys, dim}, scale, {in.q.row(first), in.q.stride}, in.k, scores);
    for (std::int64_t row = 0; row < rows; ++row) softmax_row(scores.row(row), {0, before + first + row + 1, keys});
    products.nn({rows, dim, keys}, scores, in.v, {out.row(first), out.stride});
  }
}

void clear(Head head, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = 0; row < rows; ++row) std::fill_n(head.row(row), cols, 0.0F);
}

}  // namespace

void attention(CpuStream& stream, const AttentionShape& shape, const AttentionArgs& args) {
  stream.parallel_for(shape.batch * shape.heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.heads, head = tile % shape.heads;
    const Sight sight(shape, args.documents, args.dropout, batch);
    const Planes planes = planes_of(shape, head);
    const WideHead q(head_of(shape, args.qkv, batch, planes.q)), k(head_of(shape, args.qkv, batch, planes.k)),
        v(head_of(shape, args.qkv, batch, planes.v)), out(head_of(shape, args.out, batch, head));
    forward_head({shape, sight, head}, {q.load(), k.load(), v.load()}, out,
                 args.log_sum_exp.as<float>() + tile * shape.sequence);
    out.store();
  });
}

void cached_attention(CpuStream& stream, const AttentionShape& shape, const CachedAttentionArgs& args) {
  const std::int64_t dim = shape.head_dim, row = 2 * shape.kv_heads * dim, group = shape.heads / shape.kv_heads;
  for (std::int64_t t = 0; t < shape.sequence; ++t) {
    const char* const fresh = element_at(args.qkv, t * shape.packed_cols() + shape.heads * dim);
    std::copy_n(fresh, static_cast<std::size_t>(row) * size_of(args.qkv.dtype), element_at(args.cache, (args.first + t) * row));
  }
  stream.parallel_for(shape.heads, [&](std::int64_t head) {
    const auto cached = [&](std::int64_t plane) { return Place{args.cache, 0, plane * dim, args.first + shape.sequence, dim}; };
    const WideHead q(head_of(shape, args.qkv, 0, head)), k(cached(head / group)), v(cached(shape.kv_heads + head / group)),
        out(head_of(shape, args.out, 0, head));
    cached_head(shape, args.first, {q.load(), k.load(), v.load()}, out);
    out.store();
  });
}

void attention_backward(CpuStream& stream, const AttentionShape& shape, const AttentionBackwardArgs& args) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  stream.parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.kv_heads, first_head = tile % shape.kv_heads * group;
    const Sight sight(shape, args.documents, args.dropout, batch);
    const Planes planes = planes_of(shape, first_head);
    const WideHead k(head_of(shape, args.qkv, batch, planes.k)), v(head_of(shape, args.qkv, batch, planes.v)),
        dk(head_of(shape, args.dqkv, batch, planes.k)), dv(head_of(shape, args.dqkv, batch, planes.v));
    k.load(), v.load();
    clear(dk, shape.sequence, shape.head_dim);
    clear(dv, shape.sequence, shape.head_dim);
    for (std::int64_t head = first_head; head < first_head + group; ++head) {
      const float* log_sum_exp = args.log_sum_exp.as<float>() + (batch * shape.heads + head) * shape.sequence;
      const WideHead q(head_of(shape, args.qkv, batch, head)), dq(head_of(shape, args.dqkv, batch, head)),
          dout(head_of(shape, args.dout, batch, head)), out(head_of(shape, args.out, batch, head));
      backward_head({shape, sight, head}, {q.load(), k, v}, {dout.load(), out.load(), log_sum_exp}, {dq, dk, dv});
      dq.store();
    }
    dk.store(), dv.store();
  });
}

}  // namespace pipetrain::cpu
