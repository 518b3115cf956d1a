// The operations of a transformer, as coarse as the best fused kernel. One Ops object serves one rank of one
// stage and enqueues everything on one stream, in call order, without waiting. Not thread-safe.
//
// Shapes: T tokens of a microbatch (batch x sequence, sequence fastest), Tr the rows of T that this rank owns
// under sequence parallelism (all of T without it), H hidden size, K input and N output columns of a matrix on
// this rank, I the MLP's inner size on this rank, V the vocabulary rows on this rank, Hq and Hkv query and
// key-value heads on this rank, D the size of a head. Weights are [N, K] as Hugging Face stores them: y = x
// w^T. Activations have one dtype (f32, bf16 or f16), statistics are f32, weight gradients are f32 and
// accumulate. Every operation gives the same bits for the same shapes and inputs.
//
// An operation takes its tensors in a struct, by name, because most of them have the same type and could be swapped
// unnoticed: ops/arguments/. Inputs stand before outputs there, unless a field says otherwise.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <variant>

#include "core/stream.hpp"
#include "core/tensor.hpp"
#include "ops/arguments/all.hpp"

namespace pipetrain {

class Arena;

// The arguments of an attention operation together with its segments.
template <class Args>
struct OfSegments {
  const SegmentShape& shape;
  const Args& args;
};

// One operation, as a value: a reference to its arguments, which must live until run() returns.
template <class... Args>
using OneOf = std::variant<const Args*...>;
using Operation =
    OneOf<GatherMatmulArgs, MatmulScatterArgs, WeightGradArgs, BackwardScatterArgs, QuantiseArgs, Fp8MatmulArgs, DequantiseArgs,
          DrawNormalsArgs, QuantiseNf4Args, CodeNf4ScalesArgs, GatherArgs, ScatterSumArgs, SumCopiesArgs, EmbeddingArgs,
          EmbeddingGradArgs, RmsNormArgs, RmsNormBackwardArgs, RowDotsArgs, SplitNormArgs, SplitNormBackwardArgs, CopyArgs,
          ZeroArgs, CopyColumnsArgs, JoinBlocksArgs, AddBlocksArgs, OfSegments<RotaryArgs>, OfSegments<HeadNormsArgs>,
          OfSegments<HeadNormsBackwardArgs>, SwigluArgs, SwigluBackwardArgs, LayerNormArgs, LayerNormBackwardArgs, GeluArgs,
          GeluBackwardArgs, ScaleArgs, AddBiasArgs, BiasGradArgs, AddPositionsArgs, PositionsGradArgs, DropoutArgs,
          OfSegments<AttentionArgs>, OfSegments<AttentionBackwardArgs>, OfSegments<CachedAttentionArgs>,
          OfSegments<MergeAttentionArgs>, CrossEntropyArgs, CrossEntropyBackwardArgs, CountedRowsArgs, ContextTargetsArgs,
          SequenceSumsArgs, PreferenceScalesArgs, UpdateArgs, RoundArgs, SquareSumArgs, SquareSumEachArgs, SquareSumsArgs,
          AddArgs, RouteArgs, RouteBackwardArgs, CountExpertsArgs, GatherRowsArgs, SumRowsArgs, WeighRowsArgs,
          WeighedSwigluBackwardArgs, GroupedMatmulArgs, GroupedFp8MatmulArgs, GroupedWeightGradArgs, SendTokensArgs,
          SortReceivedArgs, ExchangeRowsArgs, SigmoidArgs, SigmoidBackwardArgs, SinksArgs, SinksBackwardArgs,
          OfSegments<LatentHeadsArgs>, OfSegments<LatentHeadsBackwardArgs>, OfSegments<CachedLatentAttentionArgs>,
          ExpertBiasArgs, ExpertBiasBackwardArgs, EightBitUpdateArgs, TensorUpdateArgs, SettleMomentsArgs>;

class Ops {
 public:
  virtual ~Ops() = default;
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;

  virtual Stream& stream() = 0;
  // Sets scratch memory for the operations; they bump-allocate it in stream order. Call it before the first operation.
  virtual void set_workspace(Arena& workspace) = 0;
  // Enqueues an operation. Backends implement it, and wrappers pass it on; the methods below name the
  // operations. Throws Error(unavailable) if the device lacks the operation.
  virtual void run(const Operation& operation) = 0;

  // --- Matrices with the communication around them ---

  // Column-parallel forward and row-parallel backward: gathers the shards [Tr, in] into full, and computes out
  // = full x w, plus bias.
  void gather_matmul(const GatherMatmulArgs& args) { enqueue(args); }
  // Row-parallel forward and column-parallel backward: sums in x w over the ranks in fp32 and rank order, and
  // writes this rank's rows, plus the residual and the bias, to out.
  void matmul_scatter(const MatmulScatterArgs& args) { enqueue(args); }
  // dw += dy^T x, or = with Accumulate::no
  void weight_grad(const WeightGradArgs& args) { enqueue(args); }
  // Runs the whole backward of a column-parallel matrix: weight_grad, and matmul_scatter of dy without residual into dx. The
  // ranks' sum overlaps with the weight gradient if possible; the bits are those of the two separate operations.
  void backward_scatter(const BackwardScatterArgs& args) { enqueue(args); }
  // out = x in 8 bits: x / s rounded to nearest, where the scale s maps the largest magnitude among the numbers
  // that share it (Fp8Scales) to the type's largest. If one of these is an infinity or NaN, all become NaN.
  // Tiles and blocks are in e4m3 (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report"). Throws Error(unavailable)
  // on devices without 8-bit products, such as CPUs; so does fp8_matmul.
  void quantise(const QuantiseArgs& args) { enqueue(args); }
  // out = a b^T of the scaled numbers, summed in fp32, plus addend. With several ranks as matmul_scatter: the sum over the
  // ranks of a b^T [T, N], then this rank's rows, plus addend. Each rank's a and b have their own scales.
  void fp8_matmul(const Fp8MatmulArgs& args) { enqueue(args); }
  // out = the matrix's values, each a product of two numbers in fp32, rounded to out's type. The bits are those of bitsandbytes
  // for nf4, and the same on all devices.
  void dequantise(const DequantiseArgs& args) { enqueue(args); }
  // The three make nf4 matrices on the device, with the bits of the host's quantise() (model/quantisation/quantise.hpp) and of
  // random_weights(). Throw Error(unavailable) on CPUs, where the host's code is as fast.
  void draw_normals(const DrawNormalsArgs& args) { enqueue(args); }
  void quantise_nf4(const QuantiseNf4Args& args) { enqueue(args); }
  void code_nf4_scales(const CodeNf4ScalesArgs& args) { enqueue(args); }
  // full [T, ...] = all shards; out [Tr, ...] = the ranks' sum. With one rank they copy, or do nothing if the
  // memory is the same.
  void gather(const GatherArgs& args) { enqueue(args); }
  void scatter_sum(const ScatterSumArgs& args) { enqueue(args); }
  // values = the sum, in rank order, of those of the ranks that name the same slice. All ranks have equally many.
  void sum_copies(const SumCopiesArgs& args) { enqueue(args); }

  // --- Embedding: vocabulary rows [first_id, first_id + V) on this rank ---

  // out [Tr, H] = rows of the table for ids [T] (i32), looked up on the rank that has them and summed over the group.
  void embedding(const EmbeddingArgs& args) { enqueue(args); }
  // dtable [V, H] += dy [T, H] (gathered) at the rows of ids, with tokens added in order.
  void embedding_grad(const EmbeddingGradArgs& args) { enqueue(args); }

  // --- Norm and elementwise ---

  // y = x * inv_rms * (weight + offset) + residual, inv_rms = 1 / sqrt(mean(x^2) + eps), computed in fp32 (Zhang and Sennrich
  // 2019).
  void rms_norm(const RmsNormArgs& args) { enqueue(args); }
  // dx = the gradient of rms_norm, plus residual.
  void rms_norm_backward(const RmsNormBackwardArgs& args) { enqueue(args); }
  // sums = for each row the sum of a * b, or of a * b * weight, added in fp64.
  void row_dots(const RowDotsArgs& args) { enqueue(args); }
  // rms_norm of rows of which this rank holds some columns, given the sums of squares over all of them.
  void split_norm(const SplitNormArgs& args) { enqueue(args); }
  // dx = this rank's columns of split_norm's gradient.
  void split_norm_backward(const SplitNormBackwardArgs& args) { enqueue(args); }
  // Copies the bytes to `target`; the two must not overlap.
  void copy(const Tensor& source, const Tensor& target) { enqueue(CopyArgs{source, target}); }
  void zero(const Tensor& tensor) { enqueue(ZeroArgs{tensor}); }
  // Copies columns of each row, rounded if target's type has fewer bits.
  void copy_columns(const CopyColumnsArgs& args) { enqueue(args); }
  // Puts blocks together, and adds a matrix to its blocks, element by element.
  void join_blocks(const JoinBlocksArgs& args) { enqueue(args); }
  void add_blocks(const AddBlocksArgs& args) { enqueue(args); }
  // Rotates columns (i, i + R/2) of the query and key heads of qkv in place, by the angle of the token's position (Su et al.
  // 2021); columns from R on stay. The tokens are the shape's queries; positions count from the sequence's first token in qkv.
  void rotary(const SegmentShape& shape, const RotaryArgs& args) { enqueue(OfSegments<RotaryArgs>{shape, args}); }
  // Norms each query head and each key head as rms_norm does its rows, rounds it, and then rotates it if there are angles
  // (Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters").
  void head_norms(const SegmentShape& shape, const HeadNormsArgs& args) { enqueue(OfSegments<HeadNormsArgs>{shape, args}); }
  // The gradient of the norms, without that of the rotation.
  void head_norms_backward(const SegmentShape& shape, const HeadNormsBackwardArgs& args) {
    enqueue(OfSegments<HeadNormsBackwardArgs>{shape, args});
  }
  // y = silu(gate) * up, or gelu(gate) * up; gate_up holds all gate columns, then all up columns (Shazeer 2020).
  void swiglu(const SwigluArgs& args) { enqueue(args); }
  void swiglu_backward(const SwigluBackwardArgs& args) { enqueue(args); }
  // y = (x - mean) * inv_std * weight + bias; inv_std = 1 / sqrt(variance + eps), computed in fp32 (Ba et al. 2016).
  void layer_norm(const LayerNormArgs& args) { enqueue(args); }
  // dx = the gradient of layer_norm, plus residual. The residual's columns may be summed in the same pass: a bias's gradient.
  void layer_norm_backward(const LayerNormBackwardArgs& args) { enqueue(args); }
  // y [T, I] = gelu(x + bias) in its tanh form, 0.5 v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) (Hendrycks
  // and Gimpel 2016); x [T, I] is the matrix's output without the bias [I].
  void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) { enqueue(GeluArgs{x, bias, y}); }
  void gelu_backward(const GeluBackwardArgs& args) { enqueue(args); }
  // out = x * factor, plus residual; the factor is rounded to x's type unless it is to be exact.
  void scale(const ScaleArgs& args) { enqueue(args); }
  // y = 1 / (1 + exp(-x))
  void sigmoid(const SigmoidArgs& args) { enqueue(args); }
  void sigmoid_backward(const SigmoidBackwardArgs& args) { enqueue(args); }
  // x [T, N] += bias [N]
  void add_bias(const Tensor& x, const Tensor& bias) { enqueue(AddBiasArgs{x, bias}); }
  // dbias [N] f32 += the column sums of dy [T, N].
  void bias_grad(const Tensor& dy, const Tensor& dbias) { enqueue(BiasGradArgs{dy, dbias}); }
  // Learned positions: each token of x += its position's row of the table.
  void add_positions(const AddPositionsArgs& args) { enqueue(args); }
  // dtable += the same rows of dy, with tokens added in order.
  void positions_grad(const PositionsGradArgs& args) { enqueue(args); }
  // out = x, each element dropped or scaled as `dropout` draws, plus residual. Without residual it is its own backward.
  void dropout(const DropoutArgs& args) { enqueue(args); }

  // --- Causal attention, grouped-query included ---

  // On GPUs all except merge_attention throw Error(unavailable) for a sparse shape.

  // out = dropout(softmax(scale q k^T)) v, with the shape's scale; log_sum_exp is for the backward. A query without keys has an
  // output of zeros and a log_sum_exp of -infinity. Never holds queries x keys for all heads at once.
  void attention(const SegmentShape& shape, const AttentionArgs& args) { enqueue(OfSegments<AttentionArgs>{shape, args}); }
  // Computes one segment's share of the whole attention's gradient: given the whole attention's out and log_sum_exp, the shares
  // of all segments add up to it (Dao et al. 2022; Liu et al. 2023, "Ring Attention"). With cos_sin it includes the backward of
  // the preceding rotary: the bits are those of separate calls of attention_backward and rotary.
  void attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args) {
    enqueue(OfSegments<AttentionBackwardArgs>{shape, args});
  }
  // The forward of one sequence's next positions (shape.batch is 1, the queries are the last of the keys), without a backward:
  // stores their keys and values in the cache, then lets each attend to all positions up to its own.
  void cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) {
    enqueue(OfSegments<CachedAttentionArgs>{shape, args});
  }
  // Merges (out, log_sum_exp) over some keys with the part's, which is over other keys. shape.keys is not read.
  void merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) {
    enqueue(OfSegments<MergeAttentionArgs>{shape, args});
  }

  // --- Sinks and latent attention ---

  // Adds the sinks' logits to the denominators of the softmax: out *= 1 / (1 + exp(logit - log_sum_exp)).
  void add_sinks(const SinksArgs& args) { enqueue(args); }
  // The gradient of the logits. attention_backward computes the others, given out and log_sum_exp with the sinks.
  void sinks_backward(const SinksBackwardArgs& args) { enqueue(args); }
  // Builds the packed qkv of a latent attention, with rotated queries and keys.
  void latent_heads(const SegmentShape& shape, const LatentHeadsArgs& args) {
    enqueue(OfSegments<LatentHeadsArgs>{shape, args});
  }
  void latent_heads_backward(const SegmentShape& shape, const LatentHeadsBackwardArgs& args) {
    enqueue(OfSegments<LatentHeadsBackwardArgs>{shape, args});
  }
  // cached_attention with a cache of latent vectors: scores and outputs are computed with the latent vectors themselves, so
  // that no keys and values are expanded.
  void cached_latent_attention(const SegmentShape& shape, const CachedLatentAttentionArgs& args) {
    enqueue(OfSegments<CachedLatentAttentionArgs>{shape, args});
  }

  // --- Routed experts: shapes as in ops/arguments/experts.hpp ---

  // Chooses the C experts with the largest logits for each token, or with the largest sums of score and bias; of equal
  // ones the lowest. Drops what is beyond the capacity, and sorts the other rows. A row's weight is its expert's score.
  void route(const RouteArgs& args) { enqueue(args); }
  // dlogits = the gradient of the weights, of the balancing loss and of the z-loss. A sequence's balancing loss is
  // E sum_e f_e P_e: with N its tokens times the layers that are counted together, f_e = counts_e / N, and P_e the mean over N
  // of the expert's probability (Fedus et al. 2021, "Switch Transformers", as Hugging Face sums it over layers). Its z-loss is
  // the mean over its tokens of log_sum_exp squared, added over layers (Zoph et al. 2022, "ST-MoE"). Counts have no gradient.
  void route_backward(const RouteBackwardArgs& args) { enqueue(args); }
  void count_experts(const CountExpertsArgs& args) { enqueue(args); }
  // rows = x at the rows' tokens.
  void gather_rows(const GatherRowsArgs& args) { enqueue(args); }
  // out = for each token the sum of its rows, in the order of experts, and the addend; summed over the ranks as in
  // matmul_scatter; plus the residual.
  void sum_rows(const SumRowsArgs& args) { enqueue(args); }
  // y = x, each row times its weight.
  void weigh_rows(const WeighRowsArgs& args) { enqueue(args); }
  void weighed_swiglu_backward(const WeighedSwigluBackwardArgs& args) { enqueue(args); }
  // x += the bias of each row's expert, times the row's weight.
  void add_expert_bias(const ExpertBiasArgs& args) { enqueue(args); }
  void expert_bias_backward(const ExpertBiasBackwardArgs& args) { enqueue(args); }
  // out = in times the matrix of each row's expert, plus the bias.
  void grouped_matmul(const GroupedMatmulArgs& args) { enqueue(args); }
  // As grouped_matmul, of the scaled numbers, summed in fp32. Throws Error(unavailable) on devices other than Hopper GPUs.
  void grouped_fp8_matmul(const GroupedFp8MatmulArgs& args) { enqueue(args); }
  // Adds dy^T x over the rows of each expert to that expert's dw, or replaces it, with zeros if the expert has no row.
  void grouped_weight_grad(const GroupedWeightGradArgs& args) { enqueue(args); }
  // Lists the tokens that each rank of an expert-parallel group gets from this one.
  void send_tokens(const SendTokensArgs& args) { enqueue(args); }
  // Sorts the rows of the tokens that this rank has received.
  void sort_received(const SortReceivedArgs& args) { enqueue(args); }
  void exchange_rows(const ExchangeRowsArgs& args) { enqueue(args); }

  // --- Vocabulary-parallel loss ---

  // loss_sum = the sum of the counted tokens' cross-entropy, added in token order. gradient_scale makes it
  // include cross_entropy_backward, in one pass if that is faster: the bits are the same.
  // token_losses gives the terms of the sum.
  void cross_entropy(const CrossEntropyArgs& args) { enqueue(args); }
  // Turns logits in place into scale * (softmax - one_hot), with zeros in rows whose target is not counted and in
  // columns that do not count.
  void cross_entropy_backward(const CrossEntropyBackwardArgs& args) { enqueue(args); }

  // Divides the tokens into `batch` ranges of equal length. rows [batch, C] f64 = the first C logits of the last row of each
  // range whose target counts, zeros if there is none. logits [T, C] or more columns, targets [T] i32. C may be 0.
  void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows) {
    enqueue(CountedRowsArgs{logits, targets, rows});
  }

  // --- Losses of whole sequences ---

  // out = targets, with the token of a context in place of its target, so that cross_entropy() counts it.
  void context_targets(const ContextTargetsArgs& args) { enqueue(args); }
  // Adds up the losses of each sequence's tokens, in token order.
  void sequence_sums(const SequenceSumsArgs& args) { enqueue(args); }
  // scales = the derivative of the microbatch's preference losses (ops/preference.hpp) by the loss of each token, 0 for tokens
  // that count in none. Where the formula has pairs, the sequences are pairs.
  void preference_scales(const PreferenceScalesArgs& args) { enqueue(args); }

  // --- Flat arenas ---

  // One step of an optimizer whose rule updates every element independently (ops/update.hpp), then
  // round(weight, rounded) if `rounded` is given, in one pass if that is faster. A preview writes `rounded`
  // alone, with the bits that the step would give.
  void update(const UpdateArgs& args) { enqueue(args); }
  // The same for AdamW with moments in 8 bits.
  void eight_bit_update(const EightBitUpdateArgs& args) { enqueue(args); }
  // One step of an optimizer that updates a whole tensor at once. Throws Error(unavailable) for GaLore on GPUs.
  void tensor_update(const TensorUpdateArgs& args) { enqueue(args); }
  // Changes the frozen second moments of a tensor before a step of 1-bit Adam.
  void settle_moments(const SettleMomentsArgs& args) { enqueue(args); }
  // target [same length] bf16, f16 or f32 (a copy) = source f32, rounded to nearest even: the copy of fp32
  // master weights that matrix products read.
  void round(const Tensor& source, const Tensor& target) { enqueue(RoundArgs{source, target}); }
  // sum [1] f64 = sum of squares: fp64 sums over blocks of 65,536 elements, the blocks added in order.
  void square_sum(const Tensor& tensor, const Tensor& sum) { enqueue(SquareSumArgs{tensor, sum}); }
  // Gives the bits of square_sum for each tensor. Most of a model's gradients are too small to keep a GPU busy one at a time.
  void square_sum_each(std::span<const SquareSumArgs> sums) { enqueue(SquareSumEachArgs{sums}); }
  // sums [elements / 65,536, rounded up] f64 = the sums of the blocks: added in order, they give square_sum's bits. For a
  // tensor that begins and ends at block boundaries of a larger one, they are sums of the larger one's blocks.
  void square_sums(const Tensor& tensor, const Tensor& sums) { enqueue(SquareSumsArgs{tensor, sums}); }
  // target += source, f32, f64 or i32.
  void add(const Tensor& target, const Tensor& source) { enqueue(AddArgs{target, source}); }

 protected:
  Ops() = default;

 private:
  template <class Args>
  void enqueue(const Args& args) {
    run(Operation(std::in_place_type<const Args*>, &args));
  }
};

// Runs on a stream of a CPU device. The stream must outlive the Ops.
std::unique_ptr<Ops> make_cpu_ops(Stream& stream);
// Runs on a stream of a CUDA device. deterministic: the part of 16-bit attention's backward that cuDNN computes
// also gives the same bits in every run, slower and with more memory; all other operations always do. Throws
// Error(unavailable) in a build without CUDA.
std::unique_ptr<Ops> make_cuda_ops(Stream& stream, bool deterministic = false);
// Computes nothing: it measures the memory that a model's code allocates.
std::unique_ptr<Ops> make_measuring_ops();

}  // namespace pipetrain
