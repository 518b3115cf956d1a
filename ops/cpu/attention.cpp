// Shapes: S sequence, D head size. One tile of work is one head (forward) or one key-value head with its group of query heads
// (backward). A tile multiplies blocks of query rows with all keys up to them, so that a thread holds at most block x S scores.
// Probabilities are recomputed in the backward from log_sum_exp (Dao et al. 2022).
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/sgemm.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {
namespace {

constexpr std::int64_t block = 64;  // query rows

// A [S, D] matrix inside a packed one.
struct Head {
  float* data;
  std::int64_t stride;
  float* row(std::int64_t at) const { return data + at * stride; }
};

struct Heads {
  Head q, k, v;
};

Heads heads_of(const AttentionShape& shape, const Tensor& packed, std::int64_t batch, std::int64_t head) {
  const std::int64_t stride = shape.packed_cols(), group = shape.heads / shape.kv_heads;
  float* base = packed.as<float>() + batch * shape.sequence * stride;
  const std::int64_t kv = head / group;
  return {{base + head * shape.head_dim, stride},
          {base + (shape.heads + kv) * shape.head_dim, stride},
          {base + (shape.heads + shape.kv_heads + kv) * shape.head_dim, stride}};
}

Head output_head(const AttentionShape& shape, const Tensor& out, std::int64_t batch, std::int64_t head) {
  const std::int64_t stride = shape.heads * shape.head_dim;
  return {out.as<float>() + batch * shape.sequence * stride + head * shape.head_dim, stride};
}

// Scratch of the thread, kept for the next tile.
float* scratch(std::size_t which, std::int64_t elements) {
  thread_local std::vector<float> memory[2];
  if (memory[which].size() < static_cast<std::size_t>(elements)) memory[which].resize(static_cast<std::size_t>(elements));
  return memory[which].data();
}

// The matrix products of one operation.
class Products {
 public:
  explicit Products(const AttentionShape& shape)
      : gemm_(shape.tokens() * shape.sequence * shape.heads * shape.head_dim <= small_products ? precise_gemm : sgemm) {}

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

// Turns the scores of one query row, which sees `visible` of `keys`, into probabilities; returns log sum exp.
float softmax_row(float* scores, std::int64_t visible, std::int64_t keys) {
  const float most = lane_max(scores, visible);
  for (std::int64_t i = 0; i < visible; ++i) scores[i] = fast_exp(scores[i] - most);
  const auto sum =
      static_cast<float>(lane_sum<double>(visible, [scores](std::int64_t i) { return static_cast<double>(scores[i]); }));
  const float scale = 1.0F / sum;
  for (std::int64_t i = 0; i < visible; ++i) scores[i] *= scale;
  std::fill(scores + visible, scores + keys, 0.0F);
  return most + std::log(sum);
}

void forward_head(const AttentionShape& shape, const Heads& in, Head out, float* log_sum_exp) {
  const std::int64_t sequence = shape.sequence, dim = shape.head_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  const Products products(shape);
  const Head scores{scratch(0, block * sequence), sequence};
  for (std::int64_t first = 0; first < sequence; first += block) {
    const std::int64_t rows = std::min(block, sequence - first), keys = first + rows;
    products.nt({rows, keys, dim}, scale, {in.q.row(first), in.q.stride}, in.k, scores);
    for (std::int64_t row = 0; row < rows; ++row) {
      log_sum_exp[first + row] = softmax_row(scores.row(row), first + row + 1, keys);
    }
    products.nn({rows, dim, keys}, scores, in.v, {out.row(first), out.stride});
  }
}

// Scores and dP of one row become P and dS = P (dP - sum(dO O)) / sqrt(D).
struct GradientRow {
  float *scores, *dprobs;      // [keys]
  std::int64_t visible, keys;  // of the keys the row sees the first `visible`
  float log_sum_exp, dot, scale;
};
void gradient_row(const GradientRow& of) {
  const auto [scores, dprobs, visible, keys, log_sum_exp, dot, scale] = of;
  for (std::int64_t i = 0; i < visible; ++i) {
    scores[i] = fast_exp(scores[i] - log_sum_exp);
    dprobs[i] = scores[i] * (dprobs[i] - dot) * scale;
  }
  std::fill(scores + visible, scores + keys, 0.0F);
  std::fill(dprobs + visible, dprobs + keys, 0.0F);
}

// One query head's share: writes dq, adds to dk and dv.
void backward_head(const AttentionShape& shape, const Heads& in, Head dout, Head out, const float* log_sum_exp,
                   const Heads& grad) {
  const std::int64_t sequence = shape.sequence, dim = shape.head_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  const Products products(shape);
  const Head probs{scratch(0, block * sequence), sequence}, dprobs{scratch(1, block * sequence), sequence};
  for (std::int64_t first = 0; first < sequence; first += block) {
    const std::int64_t rows = std::min(block, sequence - first), keys = first + rows;
    const Head q{in.q.row(first), in.q.stride}, dout_block{dout.row(first), dout.stride};
    products.nt({rows, keys, dim}, scale, q, in.k, probs);
    products.nt({rows, keys, dim}, 1, dout_block, in.v, dprobs);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float *a = dout.row(first + row), *b = out.row(first + row);
      const auto dot =
          static_cast<float>(lane_sum<double>(dim, [a, b](std::int64_t i) { return static_cast<double>(a[i]) * b[i]; }));
      gradient_row({probs.row(row), dprobs.row(row), first + row + 1, keys, log_sum_exp[first + row], dot, scale});
    }
    products.nn({rows, dim, keys}, dprobs, in.k, {grad.q.row(first), grad.q.stride});
    products.add_tn({keys, dim, rows}, dprobs, q, grad.k);
    products.add_tn({keys, dim, rows}, probs, dout_block, grad.v);
  }
}

void clear(Head head, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = 0; row < rows; ++row) std::fill_n(head.row(row), cols, 0.0F);
}

}  // namespace

void attention(CpuStream& stream, const AttentionShape& shape, const AttentionArgs& args) {
  stream.parallel_for(shape.batch * shape.heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.heads, head = tile % shape.heads;
    forward_head(shape, heads_of(shape, args.qkv, batch, head), output_head(shape, args.out, batch, head),
                 args.log_sum_exp.as<float>() + tile * shape.sequence);
  });
}

void attention_backward(CpuStream& stream, const AttentionShape& shape, const AttentionBackwardArgs& args) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  stream.parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t tile) {
    const std::int64_t batch = tile / shape.kv_heads, first_head = tile % shape.kv_heads * group;
    const Heads shared = heads_of(shape, args.dqkv, batch, first_head);
    clear(shared.k, shape.sequence, shape.head_dim);
    clear(shared.v, shape.sequence, shape.head_dim);
    for (std::int64_t head = first_head; head < first_head + group; ++head) {
      const float* log_sum_exp = args.log_sum_exp.as<float>() + (batch * shape.heads + head) * shape.sequence;
      backward_head(shape, heads_of(shape, args.qkv, batch, head), output_head(shape, args.dout, batch, head),
                    output_head(shape, args.out, batch, head), log_sum_exp, heads_of(shape, args.dqkv, batch, head));
    }
  });
}

}  // namespace pipetrain::cpu
