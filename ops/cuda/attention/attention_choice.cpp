#include "ops/cuda/attention/attention_choice.hpp"

namespace pipetrain::cuda {
namespace {

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
  const bool sizes = shape.head_dim % 8 == 0 && shape.head_dim <= 256;
  const bool sight =
      shape.is_windowed() ? shape.ends_together() && !shape.sees_all_keys() : shape.ends_together() || shape.sees_all_keys();
  return is_rounded(args) && is_plain(args) && (shape.is_whole() || (sizes && sight));
}

// Used only for attention that cuDNN, which is faster, cannot compute.
template <class Args>
bool takes_mma(const SegmentShape& shape, const Args& args) {
  return is_rounded(args) && args.q.dtype == DType::bf16 && (!is_plain(args) || shape.is_windowed()) && shape.head_dim <= 256 &&
         shape.head_dim % 8 == 0 && shape.first_key % dropout_columns == 0;
}

// Documents are supported if the kernel can find where the documents of a block's keys end.
bool takes_hopper(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu) {
  const bool sight =
      args.documents ? shape.first_key == 0 && shape.ends_together() : shape.ends_together() || shape.sees_all_keys();
  const bool heads = shape.head_dim == 64 || shape.head_dim == 96 || shape.head_dim == 128 || shape.head_dim == 256;
  const std::int64_t block = hopper_attention_keys(shape.head_dim);
  // A last block of keys that is filled in part reads the rows after them, which must be numbers: those of the next sequence.
  const bool whole = shape.is_whole() && args.kv.rows() == shape.batch * shape.keys;
  const bool sizes = heads && (whole || (shape.queries % block == 0 && shape.keys % block == 0));
  return gpu.available && is_rounded(args) && !args.dropout.active() && sight && sizes &&
         shape.first_key + shape.keys <= shape.first_query + shape.queries && shape.first_key <= shape.first_query;
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

AttentionKernel attention_kernel(const SegmentShape& shape, const AttentionArgs& args) {
  refuse_sparse(shape);
  if (takes_cudnn(shape, args)) return AttentionKernel::cudnn;
  if (takes_mma(shape, args)) return AttentionKernel::mma;
  return AttentionKernel::exact;
}

AttentionKernel attention_backward_kernel(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu) {
  refuse_sparse(shape);
  const bool rounded = gives_rounded(args);
  if (rounded || gives_sums(args)) {
    if (takes_hopper(shape, args, gpu)) return AttentionKernel::hopper;
    if (takes_mma(shape, args)) return AttentionKernel::mma;
  }
  if (rounded && shape.is_whole() && takes_cudnn(shape, args) && shares_layout(args)) return AttentionKernel::cudnn;
  return AttentionKernel::exact;
}

}  // namespace pipetrain::cuda
