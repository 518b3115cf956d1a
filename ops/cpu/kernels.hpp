// The CPU's kernels. 16-bit activations are widened to fp32 row by row and results rounded; their products are
// summed in fp32. Kernels run inside a CPU stream's work and use its threads; shapes are those of ops/ops.hpp.
#pragma once

#include <cstdint>
#include <optional>

#include "core/cpu_stream.hpp"
#include "ops/arguments/all.hpp"

namespace pipetrain::cpu {

// out = x op(w) + (accumulate ? out : 0); dw = dy^T x + (accumulate ? dw : 0).
void matmul(CpuStream& stream, MatmulKind kind, const Tensor& x, const Tensor& w, bool accumulate, const Tensor& out);
void weight_grad(CpuStream& stream, const Tensor& dy, const Tensor& x, bool accumulate, const Tensor& dw);

void dequantise(CpuStream& stream, const DequantiseArgs& args);

void embedding(CpuStream& stream, const Tensor& ids, const Tensor& table, std::int64_t first_id, const Tensor& out);
void embedding_grad(CpuStream& stream, const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable);

void rms_norm(CpuStream& stream, const RmsNormArgs& args);
// partial [row_tiles, H] holds the tiles' sums of dweight, which are added in order.
void rms_norm_backward(CpuStream& stream, const RmsNormBackwardArgs& args, const Tensor& partial);

void row_dots(CpuStream& stream, const RowDotsArgs& args);
void split_norm(CpuStream& stream, const SplitNormArgs& args);
// partial: as in rms_norm_backward.
void split_norm_backward(CpuStream& stream, const SplitNormBackwardArgs& args, const Tensor& partial);

void rotary(CpuStream& stream, const SegmentShape& shape, const RotaryArgs& args);
void swiglu(CpuStream& stream, const SwigluArgs& args);
void swiglu_backward(CpuStream& stream, const SwigluBackwardArgs& args);
// dweights: of this rank's columns, without the addend.
void weighed_swiglu_backward(CpuStream& stream, const WeighedSwigluBackwardArgs& args);

void layer_norm(CpuStream& stream, const LayerNormArgs& args);
// partial [row_tiles, 2, H] holds the tiles' sums of dweight and dbias, which are added in order.
void layer_norm_backward(CpuStream& stream, const LayerNormBackwardArgs& args, const Tensor& partial);
void gelu(CpuStream& stream, const Tensor& x, const Tensor& bias, const Tensor& y);
// partial [row_tiles, cols], here and in bias_grad, holds the tiles' sums of dbias, which are added in order.
void gelu_backward(CpuStream& stream, const GeluBackwardArgs& args, const Tensor& partial);
void copy_columns(CpuStream& stream, const CopyColumnsArgs& args);
// Computes one of the blocks of Ops::add_blocks. args.blocks is not read.
void add_block(CpuStream& stream, const AddBlocksArgs& args, const MatrixBlock& block);
void scale(CpuStream& stream, const ScaleArgs& args);
void sigmoid(CpuStream& stream, const SigmoidArgs& args);
void sigmoid_backward(CpuStream& stream, const SigmoidBackwardArgs& args);
void add_bias(CpuStream& stream, const Tensor& x, const Tensor& bias);
void bias_grad(CpuStream& stream, const Tensor& dy, const Tensor& dbias, const Tensor& partial);
void add_positions(CpuStream& stream, const AddPositionsArgs& args);
void positions_grad(CpuStream& stream, const PositionsGradArgs& args);
void dropout(CpuStream& stream, const DropoutArgs& args);

void attention(CpuStream& stream, const SegmentShape& shape, const AttentionArgs& args);
void attention_backward(CpuStream& stream, const SegmentShape& shape, const AttentionBackwardArgs& args);
void cached_attention(CpuStream& stream, const SegmentShape& shape, const CachedAttentionArgs& args);
void merge_attention(CpuStream& stream, const SegmentShape& shape, const MergeAttentionArgs& args);
void add_sinks(CpuStream& stream, const SinksArgs& args);
void sinks_backward(CpuStream& stream, const SinksBackwardArgs& args);
void latent_heads(CpuStream& stream, const SegmentShape& shape, const LatentHeadsArgs& args);
void latent_heads_backward(CpuStream& stream, const SegmentShape& shape, const LatentHeadsBackwardArgs& args);
void cached_latent_attention(CpuStream& stream, const SegmentShape& shape, const CachedLatentAttentionArgs& args);

// The values of every token's logits that the ranks exchange.
struct LossSums {
  Tensor maxima;  // [T]: the largest logit
  Tensor sums;    // [2, T]: sum of exp(logit - max), and the target's logit if this rank has it, else 0
};
// These compute cross_entropy in three parts: the maxima of this rank's columns; the sums, given all ranks'
// maxima; then log_sum_exp and loss_sum. Between parts the group reduces what the previous part has written.
void row_max(CpuStream& stream, const CrossEntropyArgs& args, const LossSums& found);
void row_sums(CpuStream& stream, const CrossEntropyArgs& args, const LossSums& found);
void token_losses(const CrossEntropyArgs& args, const LossSums& found);
void cross_entropy_backward(CpuStream& stream, const CrossEntropyBackwardArgs& args);
void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows);
void context_targets(const ContextTargetsArgs& args);
void sequence_sums(const SequenceSumsArgs& args);
void preference_scales(const PreferenceScalesArgs& args);

void route(CpuStream& stream, const RouteArgs& args);
void route_backward(CpuStream& stream, const RouteBackwardArgs& args);
void count_experts(const CountExpertsArgs& args);
void gather_rows(CpuStream& stream, const GatherRowsArgs& args);
// out [T, H] = the sums of this rank's rows, plus addend and residual.
struct RowSums {
  Tensor rows, places;
  std::optional<Tensor> addend, residual;
  Tensor out;
};
void sum_rows(CpuStream& stream, const RowSums& sums);
void weigh_rows(CpuStream& stream, const WeighRowsArgs& args);
void add_expert_bias(CpuStream& stream, const ExpertBiasArgs& args);
void expert_bias_backward(CpuStream& stream, const ExpertBiasBackwardArgs& args);
void grouped_matmul(CpuStream& stream, const GroupedMatmulArgs& args);
void grouped_weight_grad(CpuStream& stream, const GroupedWeightGradArgs& args);
void send_tokens(const SendTokensArgs& args);
void sort_received(const SortReceivedArgs& args);

void update(CpuStream& stream, const UpdateArgs& args);
void eight_bit_update(CpuStream& stream, const EightBitUpdateArgs& args);
void tensor_update(CpuStream& stream, const TensorUpdateArgs& args);
void settle_moments(CpuStream& stream, const SettleMomentsArgs& args);
constexpr std::int64_t square_sum_block = 65536;
// partial [blocks] f64 holds the blocks' sums. `sums` has one element a block.
void square_sums(CpuStream& stream, const Tensor& tensor, const Tensor& sums);
void square_sum(CpuStream& stream, const Tensor& tensor, const Tensor& sum, const Tensor& partial);
// round: target = source f32 in 16 bits. The other: target = source + addend of target's type, rounded once.
void round(CpuStream& stream, const Tensor& source, const Tensor& target);
void add_rounded(CpuStream& stream, const Tensor& source, const Tensor& addend, const Tensor& target);
// out = a + b, element by element; f32, f64 or i32.
void add(CpuStream& stream, const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace pipetrain::cpu
