// The kernels, as functions that launch them on a CUDA stream. Shapes and meaning as in ops/ops.hpp; each
// function is in the .cu file of its name. The caller must make the stream's device current first and check the
// last CUDA error afterwards.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/arguments/all.hpp"

namespace pipetrain::cuda {

// rmsnorm.cu
void rms_norm(cudaStream_t stream, const RmsNormArgs& args);
// rmsnorm_backward.cu
std::size_t rms_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors);  // bytes
void rms_norm_backward(cudaStream_t stream, const RmsNormBackwardArgs& args, int multiprocessors, void* scratch);

// norm/split_norm.cu
void row_dots(cudaStream_t stream, const RowDotsArgs& args);
void split_norm(cudaStream_t stream, const SplitNormArgs& args);
std::size_t split_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors);  // bytes
void split_norm_backward(cudaStream_t stream, const SplitNormBackwardArgs& args, int multiprocessors, void* scratch);

// layernorm.cu
void layer_norm(cudaStream_t stream, const LayerNormArgs& args);
// layernorm_backward.cu
std::size_t layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors);  // bytes
void layer_norm_backward(cudaStream_t stream, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch);
// layernorm_residual_sums.cu: layer_norm_backward() for args with residual_sums
void layer_norm_backward_with_sums(cudaStream_t stream, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch);

// partials.cu: first [cols] += the sums of partial [shares, cols]; with second, of partial [shares, 2, cols],
// and so on. The order of the sum depends on the number of shares only.
struct PartialSums {
  float *first, *second = nullptr, *third = nullptr;
};
void add_partials(cudaStream_t stream, const float* partial, int shares, std::int64_t cols, const PartialSums& sums);

// bias.cu
void add_bias(cudaStream_t stream, const Tensor& x, const Tensor& bias);
std::size_t bias_grad_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors);  // bytes
void bias_grad(cudaStream_t stream, const Tensor& dy, const Tensor& dbias, int multiprocessors, void* scratch);

// gelu.cu
void gelu(cudaStream_t stream, const Tensor& x, const Tensor& bias, const Tensor& y);
// scratch: as for bias_grad
void gelu_backward(cudaStream_t stream, const GeluBackwardArgs& args, int multiprocessors, void* scratch);

// positions.cu
void add_positions(cudaStream_t stream, const AddPositionsArgs& args);
void positions_grad(cudaStream_t stream, const PositionsGradArgs& args);

// dropout.cu
void dropout(cudaStream_t stream, const DropoutArgs& args);

// rotary.cu
void rotary(cudaStream_t stream, const SegmentShape& shape, const RotaryArgs& args);

// norm/head_norms.cu
void head_norms(cudaStream_t stream, const SegmentShape& shape, const HeadNormsArgs& args);
// norm/head_norms_backward.cu
std::size_t head_norms_backward_scratch(const SegmentShape& shape, int multiprocessors);  // bytes
void head_norms_backward(cudaStream_t stream, const SegmentShape& shape, const HeadNormsBackwardArgs& args, int multiprocessors,
                         void* scratch);

// swiglu.cu
void swiglu(cudaStream_t stream, const SwigluArgs& args);
void swiglu_backward(cudaStream_t stream, const SwigluBackwardArgs& args);

// quantise.cu
// Writes the largest magnitude of x, bf16, to largest [1] f32; NaN if there is one.
void largest_magnitude(cudaStream_t stream, const QuantiseArgs& args, int multiprocessors);
// out.scale must end with x's largest magnitude.
void quantise(cudaStream_t stream, const Tensor& x, const Fp8Matrix& out);

// quantise_rows.cu: args.out.rows of the rows that are used; args.out.scale ends with x's largest magnitude
void quantise_rows(cudaStream_t stream, const QuantiseArgs& args);

// quantise_blocks.cu: out with scales of tiles or of blocks
void quantise_blocks(cudaStream_t stream, const Tensor& x, const Fp8Matrix& out);

// quantise_nf4.cu
void draw_normals(cudaStream_t stream, const DrawNormalsArgs& args);
void quantise_nf4(cudaStream_t stream, const QuantiseNf4Args& args);
std::size_t code_nf4_scales_scratch(const QuantisedLayout& layout);
void code_nf4_scales(cudaStream_t stream, const CodeNf4ScalesArgs& args, void* scratch);

// dequantise.cu
void dequantise(cudaStream_t stream, const DequantiseArgs& args);

// embedding.cu; out [T, H], output: the rows that this rank has, zeros for the others
void embedding(cudaStream_t stream, const EmbeddingArgs& args, const Tensor& out);
std::size_t embedding_grad_scratch(std::int64_t tokens);  // bytes
void embedding_grad(cudaStream_t stream, const EmbeddingGradArgs& args, int multiprocessors, void* scratch);

// attention.cu, attention_gradients.cu: any head size up to 256
void attention(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args);
std::size_t attention_backward_scratch(const SegmentShape& shape);  // bytes
void attention_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, void* scratch);

// merge_attention.cu
void merge_attention(cudaStream_t stream, const SegmentShape& shape, const MergeAttentionArgs& args);

// columns.cu
void copy_columns(cudaStream_t stream, const CopyColumnsArgs& args);
void join_blocks(cudaStream_t stream, const JoinBlocksArgs& args);
void add_blocks(cudaStream_t stream, const AddBlocksArgs& args);

// attention_mma.cu, attention_mma_backward.cu: all tensors bf16, if attention_choice.cpp chooses them. dq and
// dkv are bf16 and overwritten, or f32.
void attention_mma(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args);
std::size_t attention_mma_backward_scratch(const SegmentShape& shape);  // bytes
void attention_mma_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, void* scratch);
// Add attention to further keys, which the queries see besides, to the results: out, log_sum_exp, dq and dkv hold those for the
// other keys. dq and dkv are bf16 or f32 whatever args.accumulate_... say, and dkv is f32 if dq is.
void add_attention_mma(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args);
std::size_t add_attention_mma_backward_scratch(const SegmentShape& shape);  // bytes
void add_attention_mma_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args,
                                void* scratch);

// cached_attention.cu: fp32 and bf16, any head size up to 256
void cached_attention(cudaStream_t stream, const SegmentShape& shape, const CachedAttentionArgs& args);

// cross_entropy.cu
// The values of each token's logits on this rank that the first pass finds; all [T].
struct LossSums {
  float* largest;
  float* sum;           // the sum of exp(logit - largest)
  float* target_logit;  // 0 if another rank has it or the token is not counted
};
void cross_entropy_local(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found);
// sum *= exp(own_largest - largest), before the ranks' sums are added.
void cross_entropy_rescale(cudaStream_t stream, std::int64_t tokens, const float* own_largest, const LossSums& found);
void cross_entropy_loss(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found);
void cross_entropy_backward(cudaStream_t stream, const CrossEntropyBackwardArgs& args);
void counted_rows(cudaStream_t stream, const Tensor& logits, const Tensor& targets, const Tensor& rows);

// preference.cu
void context_targets(cudaStream_t stream, const ContextTargetsArgs& args);
void sequence_sums(cudaStream_t stream, const SequenceSumsArgs& args);
void preference_scales(cudaStream_t stream, const PreferenceScalesArgs& args);

// update.cu
void update(cudaStream_t stream, const UpdateArgs& args);
// eight_bit_update.cu
void eight_bit_update(cudaStream_t stream, const EightBitUpdateArgs& args);

// elementwise.cu
void scale(cudaStream_t stream, const ScaleArgs& args);
void add(cudaStream_t stream, const Tensor& target, const Tensor& source);
// out = sum (f32) + residual, in out's dtype.
void add_residual(cudaStream_t stream, const Tensor& sum, const std::optional<Tensor>& residual, const Tensor& out);
struct AddRanksArgs {
  Tensor received;                 // [ranks, rows, cols]
  int rank;                        // the index of `own` among them
  Tensor own;                      // [rows, cols]
  std::optional<Tensor> residual;  // [rows, cols]; may be out's memory
  Tensor out;                      // [rows, cols], output: the sum in rank order, plus residual; one rounding
};
void add_ranks(cudaStream_t stream, const AddRanksArgs& args);
std::size_t square_sum_scratch(std::int64_t elements);  // bytes
void square_sums(cudaStream_t stream, const Tensor& tensor, const Tensor& sums);
// `counter` must be zero, and is zero again afterwards.
void square_sum(cudaStream_t stream, const Tensor& tensor, const Tensor& sum, void* scratch, unsigned* counter);

}  // namespace pipetrain::cuda
