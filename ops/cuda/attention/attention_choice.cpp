#include "ops/cuda/attention/attention_choice.hpp"

#include <algorithm>

namespace pipetrain::cuda {
namespace {

std::int64_t widest_head(const SegmentShape& shape) { return std::max(shape.head_dim, shape.value_dim()); }

bool has_equal_heads(const SegmentShape& shape) { return shape.value_dim() == shape.head_dim; }

// Returns the smallest head size of the Hopper kernels for equal heads that is at least as large, or 0.
std::int64_t hopper_head_size(std::int64_t head_dim) {
  for (const std::int64_t size : {64, 96, 128, 256})
    if (head_dim <= size) return size;
  return 0;
}

template <class Args>
bool is_plain(const Args& args) {
  return !args.documents && !args.dropout.active();
}

// 16-bit tensors, with an output of the input's type.
template <class Args>
bool is_rounded(const Args& args) {
  return args.q.dtype != DType::f32 && args.out.dtype == args.q.dtype;
}

// cuDNN draws dropout in ways that depend on the layout, and its graphs need the number of documents in advance. It aligns the
// causal diagonal with the first key or with the last one, and takes a window only beside that diagonal.
template <class Args>
bool takes_cudnn(const SegmentShape& shape, const Args& args) {
  const bool sizes = widest_head(shape) <= 256 && shape.head_dim % 8 == 0 && shape.value_dim() % 8 == 0;
  const bool sight =
      shape.is_windowed() ? shape.ends_together() && !shape.sees_all_keys() : shape.ends_together() || shape.sees_all_keys();
  return is_rounded(args) && is_plain(args) && !shape.is_sparse() &&
         ((shape.is_whole() && has_equal_heads(shape)) || (sizes && sight));
}

// Used only for attention that cuDNN, which is faster, cannot compute.
template <class Args>
bool takes_mma(const SegmentShape& shape, const Args& args) {
  return is_rounded(args) && args.q.dtype == DType::bf16 &&
         (!is_plain(args) || shape.is_windowed() || shape.is_sparse() || shape.own_value_dim > 0) && has_equal_heads(shape) &&
         shape.head_dim <= 256 && shape.head_dim % 8 == 0 && shape.first_key % dropout_columns == 0;
}

// Documents are supported if the kernel can find where the documents of a block's keys end.
bool takes_hopper(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu) {
  const bool sight =
      args.documents ? shape.first_key == 0 && shape.ends_together() : shape.ends_together() || shape.sees_all_keys();
  const bool heads = has_equal_heads(shape) ? hopper_head_size(shape.head_dim) == shape.head_dim
                                            : shape.head_dim == 192 && shape.value_dim() == hopper_attention_values(192);
  const std::int64_t block = hopper_attention_keys(shape.head_dim);
  // A last block of keys that is filled in part reads the rows after them, which must be numbers: those of the next sequence.
  const bool whole = shape.is_whole() && args.kv.rows() == shape.batch * shape.keys;
  const bool sizes = heads && (whole || (shape.queries % block == 0 && shape.keys % block == 0));
  return gpu.available && is_rounded(args) && !args.dropout.active() && !shape.is_sparse() && sight && sizes &&
         shape.first_key + shape.keys <= shape.first_query + shape.queries && shape.first_key <= shape.first_query;
}

// True where the sinks before the window are a segment of their own, which attention_mma.cu can add.
template <class Args>
bool has_sinks_apart(const SegmentShape& shape, const Args& args) {
  return shape.sinks > 0 && shape.is_windowed() && shape.block == 0 && shape.period == 0 && shape.first_key == 0 &&
         is_plain(args) && is_rounded(args) && args.q.dtype == DType::bf16 && has_equal_heads(shape) && shape.head_dim <= 256 &&
         shape.head_dim % 8 == 0;
}

// The gradients are rounded to the activations' type, or are sums in f32: dQ may be either if dK and dV are sums.
bool rounds(const Tensor& gradient, Accumulate accumulate, DType activations) {
  return gradient.dtype == activations && accumulate == Accumulate::no;
}
bool gives_rounded(const AttentionBackwardArgs& args) {
  return rounds(args.dq, args.accumulate_dq, args.q.dtype) && rounds(args.dkv, args.accumulate_dkv, args.q.dtype);
}
bool gives_sums(const AttentionBackwardArgs& args) {
  return args.dkv.dtype == DType::f32 && args.accumulate_dkv == Accumulate::yes &&
         (args.dq.dtype == DType::f32 || rounds(args.dq, args.accumulate_dq, args.q.dtype));
}

// cuDNN's backward is planned with the strides of q and kv for the gradients.
bool shares_layout(const AttentionBackwardArgs& args) {
  return args.dq.cols() == args.q.cols() && args.dkv.shape == args.kv.shape;
}

}  // namespace

SegmentShape needed_pattern(const SegmentShape& shape, bool has_documents) {
  SegmentShape needed = shape;
  const bool sees_all = !shape.is_windowed() && shape.block == 0;
  if (sees_all || (!has_documents && shape.first_key >= shape.sinks)) needed.sinks = 0;
  if (sees_all) needed.period = needed.stripe = 0;
  return needed;
}

SegmentShape window_part(const SegmentShape& shape) {
  SegmentShape part = shape;
  part.sinks = 0;
  return part;
}

SegmentShape sinks_part(const SegmentShape& shape) {
  SegmentShape part = shape;
  part.keys = std::min(shape.sinks, shape.keys);
  part.first_query -= shape.window;
  part.window = part.sinks = 0;
  return part;
}

AttentionKernel attention_kernel(const SegmentShape& shape, const AttentionArgs& args) {
  if (takes_cudnn(shape, args)) return AttentionKernel::cudnn;
  if (has_sinks_apart(shape, args) && takes_cudnn(window_part(shape), args)) return AttentionKernel::window_and_sinks;
  if (takes_mma(shape, args)) return AttentionKernel::mma;
  return AttentionKernel::exact;
}

AttentionKernel attention_backward_kernel(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu) {
  const bool rounded = gives_rounded(args);
  if (rounded || gives_sums(args)) {
    if (takes_hopper(shape, args, gpu)) return AttentionKernel::hopper;
    if (has_sinks_apart(shape, args) && takes_hopper(window_part(shape), args, gpu)) return AttentionKernel::window_and_sinks;
    if (takes_mma(shape, args)) return AttentionKernel::mma;
  }
  if (rounded && shape.is_whole() && has_equal_heads(shape) && takes_cudnn(shape, args) && shares_layout(args))
    return AttentionKernel::cudnn;
  return AttentionKernel::exact;
}

std::int64_t padded_head_size(const SegmentShape& shape, const AttentionArgs& args) {
  if (has_equal_heads(shape) || attention_kernel(shape, args) != AttentionKernel::exact) return 0;
  const SegmentShape padded = with_padded_heads(shape, widest_head(shape));
  return attention_kernel(padded, args) == AttentionKernel::exact ? 0 : padded.head_dim;
}

std::int64_t padded_head_size(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu) {
  if (has_equal_heads(shape) || attention_backward_kernel(shape, args, gpu) != AttentionKernel::exact) return 0;
  for (const std::int64_t size : {hopper_head_size(widest_head(shape)), widest_head(shape)}) {
    if (size > 0 && attention_backward_kernel(with_padded_heads(shape, size), args, gpu) != AttentionKernel::exact) return size;
  }
  return 0;
}

SegmentShape with_padded_heads(const SegmentShape& shape, std::int64_t size) {
  SegmentShape padded = shape;
  padded.head_dim = padded.own_value_dim = size;
  padded.scale = shape.score_scale();
  return padded;
}

}  // namespace pipetrain::cuda
