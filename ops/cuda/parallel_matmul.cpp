#include "ops/cuda/parallel_matmul.hpp"

#include "core/error.hpp"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

// Small tensors are moved sooner by one kernel than by many copies.
PiecewiseTransfer* in_pieces(const TensorParallel& tp, const Tensor& full) {
  constexpr std::size_t worthwhile = std::size_t{2} << 20;
  return full.bytes() < worthwhile || full.rows() < tp.size() ? nullptr : tp.group->in_pieces();
}

}  // namespace

ParallelMatmul::ParallelMatmul(OpsStream& ops)
    : ops_(ops),
      gemm_(ops.stream().device_index()),
      workspace_(ops.stream().device().allocate(gemm_workspace, "the workspace of matrix products")) {}

void ParallelMatmul::gather_matmul(const TensorParallel& tp, MatmulKind kind, const Tensor& shard, const Tensor& w,
                                   const Tensor& full, const Tensor& out) {
  const bool gathers = tp.sequence_parallel && tp.size() > 1;
  if (PiecewiseTransfer* transfer = gathers ? in_pieces(tp, full) : nullptr) {
    const RowSplit rows(full.rows(), tp.size());
    return transfer->gather(ops_.stream(), shard, full, [&](std::int64_t begin, std::int64_t end) {
      const bool own = begin == rows.begin(tp.rank());
      matmul(kind, own ? shard : full.row_range(begin, end), w, nullptr, out.row_range(begin, end));
    });
  }
  if (gathers) tp.group->all_gather(ops_.stream(), shard, full);
  matmul(kind, gathers ? full : shard, w, nullptr, out);
}

void ParallelMatmul::matmul_scatter(const TensorParallel& tp, MatmulKind kind, const Tensor& in, const Tensor& w,
                                    const Tensor* residual, const Tensor& out) {
  if (tp.size() == 1) return matmul(kind, in, w, residual, out);
  if (sums_in_pieces(tp, kind, in, w, residual, out, {})) return;
  const std::int64_t cols = product_cols(kind, w);
  // With shards, partial sums travel in the activations' type and are added in fp32; without, they stay fp32 all the way.
  Tensor partial{nullptr, {in.rows(), cols}, tp.sequence_parallel ? out.dtype : DType::f32};
  Tensor sum{nullptr, {out.rows(), cols}, DType::f32};
  auto* memory = static_cast<char*>(ops_.scratch(align_up(partial.bytes()) + align_up(sum.bytes())));
  partial.data = memory;
  sum.data = memory + align_up(partial.bytes());
  matmul(kind, in, w, nullptr, partial);
  if (tp.sequence_parallel) {
    tp.group->reduce_scatter(ops_.stream(), partial, sum);
  } else {
    tp.group->all_reduce(ops_.stream(), partial, Reduction::sum);
    sum.data = partial.data;
  }
  ops_.enqueue("adding the residual", [&](cudaStream_t native) { add_residual(native, sum, residual, out); });
}

void ParallelMatmul::weight_grad(const Tensor& dy, const Tensor& x, const Tensor& dw, Accumulate accumulate) {
  multiply(Product::dw, dy, x, accumulate == Accumulate::yes ? dw.data : nullptr, dw);
}

bool ParallelMatmul::backward_scatter_in_pieces(const TensorParallel& tp, const Tensor& dy, const Tensor& w, const Tensor& dx,
                                                const Tensor& x, const Tensor& dw, Accumulate accumulate) {
  const auto meanwhile = [&] { weight_grad(dy, x, dw, accumulate); };
  return tp.size() > 1 && sums_in_pieces(tp, MatmulKind::input_grad, dy, w, nullptr, dx, meanwhile);
}

// matmul_scatter with the ranks' partial sums on their way while others are computed, and while what `meanwhile` enqueues is.
// False where that is not worthwhile. `meanwhile` must not use the scratch.
bool ParallelMatmul::sums_in_pieces(const TensorParallel& tp, MatmulKind kind, const Tensor& in, const Tensor& w,
                                    const Tensor* residual, const Tensor& out, const std::function<void()>& meanwhile) {
  Tensor partial{nullptr, {in.rows(), product_cols(kind, w)}, out.dtype};
  PiecewiseTransfer* transfer = tp.sequence_parallel ? in_pieces(tp, partial) : nullptr;
  if (transfer == nullptr) return false;
  Tensor received{nullptr, {tp.size(), out.rows(), partial.cols()}, out.dtype};
  auto* memory = static_cast<char*>(ops_.scratch(align_up(partial.bytes()) + received.bytes()));
  partial.data = memory;
  received.data = memory + align_up(partial.bytes());
  const auto product = [&](std::int64_t begin, std::int64_t end) {
    matmul(kind, in.row_range(begin, end), w, nullptr, partial.row_range(begin, end));
  };
  transfer->exchange(ops_.stream(), partial, received, product, meanwhile);
  const std::int64_t begin = tp.shard_begin(in.rows());
  const Tensor own = partial.row_range(begin, begin + out.rows());
  ops_.enqueue("adding the ranks' sums",
               [&](cudaStream_t native) { add_ranks(native, received, tp.rank(), own, residual, out); });
  return true;
}

void ParallelMatmul::matmul(MatmulKind kind, const Tensor& in, const Tensor& w, const Tensor* residual, const Tensor& out) {
  multiply(kind == MatmulKind::forward ? Product::y : Product::dx, in, w, residual == nullptr ? nullptr : residual->data, out);
}

void ParallelMatmul::multiply(Product product, const Tensor& a, const Tensor& b, const void* addend, const Tensor& out) {
  CudaStream& stream = ops_.stream();
  if (!stream.begin()) return;
  if (addend == out.data && out.dtype == DType::bf16) {
    // In place cuBLASLt adds in memory: it rounds the product, then the sum. Apart, it rounds once.
    void* apart = ops_.scratch(out.bytes());
    stream.copy(apart, addend, out.bytes());
    addend = apart;
  }
  const cublasStatus_t status = gemm_.run(stream.native(), product, a, b, addend, out, workspace_.data());
  if (status == CUBLAS_STATUS_SUCCESS) return;
  stream.fail(std::make_exception_ptr(
      Error(ErrorKind::peer_lost,
            to_string(stream.device().id()) + ": a matrix product failed: " + cublasLtGetStatusString(status))));
}

}  // namespace pipetrain::cuda
