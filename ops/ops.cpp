#include "ops/ops.hpp"

#include "core/error.hpp"

namespace pipetrain {

namespace {

[[noreturn]] void refuse_fp8() {
  throw Error(ErrorKind::unavailable, "this device computes no products in 8 bits; use precision fp32");
}

[[noreturn]] void refuse_segments() {
  throw Error(ErrorKind::unavailable, "this device has no attention between stretches of a sequence; use slices 1");
}

}  // namespace

void Ops::copy_columns(const CopyColumnsArgs&) {
  throw Error(ErrorKind::unavailable, "this device copies no columns of a matrix; use slices 1");
}

void Ops::quantise(const QuantiseArgs&) { refuse_fp8(); }

void Ops::fp8_matmul(const Fp8MatmulArgs&) { refuse_fp8(); }

void Ops::segment_attention(const SegmentShape&, const SegmentAttentionArgs&) { refuse_segments(); }

void Ops::segment_attention_backward(const SegmentShape&, const SegmentAttentionBackwardArgs&) { refuse_segments(); }

void Ops::merge_attention(const SegmentShape&, const MergeAttentionArgs&) { refuse_segments(); }

void Ops::fp8_matmul_scatter(const TensorParallel&, const Fp8MatmulArgs&) { refuse_fp8(); }

}  // namespace pipetrain
