// The operations a transformer is made of, as coarse as the best fused kernel. One Ops object serves one rank of one stage and
// enqueues everything on one stream, in call order; nothing waits. Not thread-safe.
//
// Shapes: T tokens of a microbatch (batch x sequence, sequence fastest), Tr the rows of T that this rank owns under sequence
// parallelism (all of T without it), H hidden size, K input and N output columns of a matrix on this rank, I the MLP's inner
// size on this rank, V the vocabulary rows on this rank, Hq and Hkv query and key-value heads on this rank, D the size of a
// head. Weights are [N, K] as Hugging Face stores them: y = x w^T. Activations have one dtype (f32, bf16 or f16), statistics
// are f32, weight gradients are f32 and accumulate. Every operation gives the same bits for the same shapes and inputs.
#pragma once

#include <cstdint>
#include <memory>

#include "core/process_group.hpp"
#include "core/stream.hpp"
#include "core/tensor.hpp"
#include "ops/arguments.hpp"
#include "ops/segment_shape.hpp"

namespace pipetrain {

class Arena;

// How a layer's matrices are spread over the tensor-parallel group. With one rank nothing is communicated.
struct TensorParallel {
  Group* group = nullptr;          // null means one rank
  bool sequence_parallel = false;  // norms and residuals on shards of the tokens (RowSplit), gathered in front of matrices

  int size() const { return group == nullptr ? 1 : group->size(); }
  int rank() const { return group == nullptr ? 0 : group->rank(); }
  // The rows of `tokens` that this rank's norms and residuals hold.
  std::int64_t shard_begin(std::int64_t tokens) const { return sequence_parallel ? RowSplit(tokens, size()).begin(rank()) : 0; }
  std::int64_t shard_rows(std::int64_t tokens) const {
    return sequence_parallel ? RowSplit(tokens, size()).count(rank()) : tokens;
  }
};

struct AdamW {
  float lr = 0, beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0;
  std::int64_t step = 1;  // counts from 1, for the bias corrections
  float grad_scale = 1;   // the clipping factor, applied to the gradient first
};

enum class MatmulKind {
  forward,     // y [T, N] = x [T, K] w^T
  input_grad,  // dx [T, K] = dy [T, N] w
};
// Of a product's result, whose tensor has no columns to count when it has no rows.
inline std::int64_t product_cols(MatmulKind kind, const Tensor& w) { return kind == MatmulKind::forward ? w.rows() : w.cols(); }

class Ops {
 public:
  virtual ~Ops() = default;
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;

  virtual Stream& stream() = 0;
  // Scratch for the operations' own use; bump allocation in stream order. Set before the first call.
  virtual void set_workspace(Arena& workspace) = 0;

  // --- Matrices with the communication around them ---

  // Column-parallel forward and row-parallel backward: full = all shards [Tr, in] gathered, out = full x w, plus bias.
  virtual void gather_matmul(const TensorParallel& tp, MatmulKind kind, const GatherMatmulArgs& args) = 0;
  // Row-parallel forward and column-parallel backward: in x w, summed over the ranks in fp32 and rank order, then this rank's
  // rows, plus the residual and the bias, into out.
  virtual void matmul_scatter(const TensorParallel& tp, MatmulKind kind, const MatmulScatterArgs& args) = 0;
  // dw += dy^T x, or = with Accumulate::no
  virtual void weight_grad(const WeightGradArgs& args) = 0;
  // A column-parallel matrix's whole backward: weight_grad, and matmul_scatter of dy without residual into dx. Where the ranks'
  // sum can travel while the weight gradient is computed, it does; the bits are those of the two operations apart.
  virtual void backward_scatter(const TensorParallel& tp, const BackwardScatterArgs& args) {
    weight_grad({.dy = args.dy, .x = args.x, .dw = args.dw, .accumulate = args.accumulate});
    matmul_scatter(tp, MatmulKind::input_grad, {.in = args.dy, .w = args.w, .out = args.dx});
  }
  // out = x in 8 bits: x / s rounded to the nearest, s the scale by which the largest magnitude of what it is for (Fp8Scales)
  // becomes the type's largest. An infinity or NaN in that makes all of it NaN. Tiles and blocks are in e4m3 (DeepSeek-AI
  // 2024, "DeepSeek-V3 Technical Report"). Throws Error(unavailable) where there are no 8 bits, as on CPUs; so do the next two.
  virtual void quantise(const QuantiseArgs& args);
  // out = a b^T, both as the numbers that they stand for, summed up in fp32, plus addend.
  virtual void fp8_matmul(const Fp8MatmulArgs& args);
  // matmul_scatter of such a product: a b^T [T, N] summed over the ranks, then this rank's rows, plus addend, into out [Tr, N].
  // Each rank's a and b have scales of their own.
  virtual void fp8_matmul_scatter(const TensorParallel& tp, const Fp8MatmulArgs& args);
  // full [T, ...] = all shards; out [Tr, ...] = the ranks' sum. Copies (nothing, when same memory) with one rank.
  virtual void gather(const TensorParallel& tp, const Tensor& shard, const Tensor& full) = 0;
  virtual void scatter_sum(const TensorParallel& tp, const Tensor& full, const Tensor& out) = 0;

  // --- Embedding: vocabulary rows [first_id, first_id + V) on this rank ---

  // out [Tr, H] = rows of the table for ids [T] (i32), looked up on the rank that has them and summed over the group.
  virtual void embedding(const TensorParallel& tp, const Tensor& ids, const Tensor& table, std::int64_t first_id,
                         const Tensor& out) = 0;
  // dtable [V, H] += dy [T, H] (gathered) at the rows of ids, tokens in order.
  virtual void embedding_grad(const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) = 0;

  // --- Norm and elementwise ---

  // y = x * inv_rms * weight, inv_rms = 1 / sqrt(mean(x^2) + eps), computed in fp32 (Zhang and Sennrich 2019).
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  // dx = gradient of rms_norm, plus residual.
  virtual void rms_norm_backward(const RmsNormBackwardArgs& args) = 0;
  // The same bytes in `target`; they must not overlap.
  virtual void copy(const Tensor& source, const Tensor& target) { stream().copy(target.data, source.data, source.bytes()); }
  virtual void zero(const Tensor& tensor) { stream().zero(tensor); }
  // Columns of each row, rounded to target's type where that has fewer bits. Throws Error(unavailable) unless a backend has its
  // own.
  virtual void copy_columns(const CopyColumnsArgs& args);
  // In place on the query and key heads of qkv: rotates (i, i + D/2) by the angle of the token's position (Su et al. 2021). The
  // tokens are the shape's queries; positions count from the sequence's first token in qkv.
  virtual void rotary(const SegmentShape& shape, const RotaryArgs& args) = 0;
  // y = silu(gate) * up; gate_up holds all gate columns, then all up columns (Shazeer 2020).
  virtual void swiglu(const SwigluArgs& args) = 0;
  virtual void swiglu_backward(const SwigluBackwardArgs& args) = 0;

  // y = (x - mean) * inv_std * weight + bias; inv_std = 1 / sqrt(variance + eps), computed in fp32 (Ba et al. 2016).
  virtual void layer_norm(const LayerNormArgs& args) = 0;
  // dx = gradient of layer_norm, plus residual, whose columns may be summed up on the way: a bias's gradient.
  virtual void layer_norm_backward(const LayerNormBackwardArgs& args) = 0;
  // y [T, I] = gelu(x + bias) in its tanh form, 0.5 v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) (Hendrycks and Gimpel 2016);
  // x [T, I] as the matrix left it, bias [I].
  virtual void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) = 0;
  virtual void gelu_backward(const GeluBackwardArgs& args) = 0;
  // x [T, N] += bias [N]
  virtual void add_bias(const Tensor& x, const Tensor& bias) = 0;
  // dbias [N] f32 += the columns' sums of dy [T, N].
  virtual void bias_grad(const Tensor& dy, const Tensor& dbias) = 0;
  // Learned positions: each token of x += its position's row of the table.
  virtual void add_positions(const AddPositionsArgs& args) = 0;
  // dtable += the same rows of dy, tokens in order.
  virtual void positions_grad(const PositionsGradArgs& args) = 0;
  // out = x, each element dropped or scaled as `dropout` draws, plus residual. Without residual its own backward.
  virtual void dropout(const DropoutArgs& args) = 0;

  // --- Causal attention, grouped-query included ---

  // All but merge_attention throw Error(unavailable) for a shape with a window or with sinks.

  // out = dropout(softmax(q k^T / sqrt(D))) v; log_sum_exp is kept for the backward. A query that sees no key has an output of
  // zeros and a log_sum_exp of -infinity. Never holds queries x keys for all heads at once.
  virtual void attention(const SegmentShape& shape, const AttentionArgs& args) = 0;
  // One segment's share of the whole attention's gradient: with the whole attention's out and log_sum_exp the shares of all
  // segments add up to it (Dao et al. 2022; Liu et al. 2023, "Ring Attention"). With cos_sin also the backward of the rotary
  // before it: the bits are those of attention_backward and rotary apart.
  virtual void attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args) = 0;
  // The forward of one sequence's next positions (shape.batch is 1, the queries are the last of the keys), without a backward:
  // puts their keys and values into the cache, then attends to all positions up to each one's own.
  virtual void cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) = 0;
  // (out, log_sum_exp) of some keys become those of these keys and the part's, of others, together. shape.keys is not read.
  virtual void merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) = 0;

  // --- Vocabulary-parallel loss ---

  // loss_sum = sum of the counted tokens' cross-entropy, added in token order.
  virtual void cross_entropy(const TensorParallel& tp, const CrossEntropyArgs& args) = 0;
  // In place: logits become scale * (softmax - one_hot), zero rows where the target is not counted, zero where columns are not.
  virtual void cross_entropy_backward(const CrossEntropyBackwardArgs& args) = 0;
  // cross_entropy, then cross_entropy_backward with this scale, in one pass where that is faster: the same bits.
  virtual void cross_entropy_with_gradient(const TensorParallel& tp, const CrossEntropyArgs& args, float scale) {
    cross_entropy(tp, args);
    cross_entropy_backward({args.logits, args.targets, args.vocabulary, args.log_sum_exp, scale});
  }

  // rows [batch, C] f64 = of each of `batch` runs of equally many tokens the first C logits of its last row whose target
  // counts, zeros where none does. logits [T, C] or more columns, targets [T] i32. C may be 0.
  virtual void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows) = 0;

  // --- Flat arenas ---

  // Decoupled weight decay, bias-corrected (Loshchilov and Hutter 2019).
  virtual void adamw(const AdamWArgs& args, const AdamW& settings) = 0;
  // target [same length] bf16, f16 or f32 (a copy) = source f32, rounded to nearest even: the copy of fp32 master weights that
  // matrices are computed from.
  virtual void round(const Tensor& source, const Tensor& target) = 0;
  // adamw, then round(weight, rounded), in one pass where that is faster.
  virtual void adamw_rounded(const AdamWArgs& args, const AdamW& settings, const Tensor& rounded) {
    adamw(args, settings);
    round(args.weight, rounded);
  }
  // result [same length] f32, bf16 or f16 = the weight that adamw with these settings would make, to the bit, rounded to
  // nearest even; weight and moments stay.
  virtual void adamw_preview(const AdamWArgs& args, const AdamW& settings, const Tensor& result) = 0;
  // sum [1] f64 = sum of squares: fp64 sums over blocks of 65,536 elements, the blocks added in order.
  virtual void square_sum(const Tensor& tensor, const Tensor& sum) = 0;
  // sums [elements / 65,536, rounded up] f64 = those blocks' sums: added in order, they are square_sum's to the bit. Of a
  // tensor that begins and ends where blocks of a larger one do, they are that one's.
  virtual void square_sums(const Tensor& tensor, const Tensor& sums) = 0;
  // target += source, f32 or f64.
  virtual void add(const Tensor& target, const Tensor& source) = 0;

 protected:
  Ops() = default;
};

// Runs on a stream of a CPU device. The stream must outlive the Ops.
std::unique_ptr<Ops> make_cpu_ops(Stream& stream);
// Runs on a stream of a CUDA device. deterministic: what is left to cuDNN of 16-bit attention's backward gives the same bits in
// every run too, slower and with more memory; all else always does. Throws Error(unavailable) in a build without CUDA.
std::unique_ptr<Ops> make_cuda_ops(Stream& stream, bool deterministic = false);
// Computes nothing: for measuring the memory that a model's code asks for.
std::unique_ptr<Ops> make_measuring_ops();

}  // namespace pipetrain
