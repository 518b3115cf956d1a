#include "ops/cuda/gemm/parallel_matmul.hpp"

#include "core/error.hpp"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

// One kernel moves small tensors faster than many copies do.
PiecewiseTransfer* in_pieces(const TensorParallel& tp, const Tensor& full) {
  constexpr std::size_t worthwhile = std::size_t{2} << 20;
  return full.bytes() < worthwhile || full.rows() < tp.size() ? nullptr : tp.group->in_pieces();
}

}  // namespace

ParallelMatmul::ParallelMatmul(OpsStream& ops)
    : ops_(ops),
      gemm_(ops.stream().device_index()),
      workspace_(ops.stream().device().allocate(gemm_workspace, "the workspace of matrix products")) {}

void ParallelMatmul::gather_matmul(const GatherMatmulArgs& args) {
  const TensorParallel& tp = args.tp;
  const bool gathers = tp.sequence_parallel && tp.size() > 1;
  if (PiecewiseTransfer* transfer = gathers ? in_pieces(tp, args.full) : nullptr) {
    const RowSplit rows(args.full.rows(), tp.size());
    const auto use = [&](std::int64_t begin, std::int64_t end) {
      const bool own = begin == rows.begin(tp.rank());
      matmul({.kind = args.kind,
              .in = own ? args.shard : args.full.row_range(begin, end),
              .w = args.w,
              .out = args.out.row_range(begin, end),
              .bias = args.bias});
    };
    return transfer->gather(ops_.stream(), args.shard, args.full, rows, use, {});
  }
  if (gathers) tp.group->all_gather(ops_.stream(), args.shard, args.full);
  matmul({.kind = args.kind, .in = gathers ? args.full : args.shard, .w = args.w, .out = args.out, .bias = args.bias});
}

void ParallelMatmul::matmul_scatter(const MatmulScatterArgs& args) {
  if (args.tp.size() == 1) return matmul(args);
  sum_over_ranks(args.tp, partial_product(args));
  if (args.bias) add_bias_apart(args.out, *args.bias);
}

// The result refers to args.
ParallelMatmul::PartialProduct ParallelMatmul::partial_product(const MatmulScatterArgs& args) {
  const auto make = [this, &args](std::int64_t begin, std::int64_t end, const Tensor& part) {
    matmul({.kind = args.kind, .in = args.in.row_range(begin, end), .w = args.w, .out = part, .factor = args.factor});
  };
  return {args.in.rows(), product_cols(args.kind, args.w), make, args.residual, args.out};
}

void ParallelMatmul::sum_over_ranks(const TensorParallel& tp, const PartialProduct& product) {
  if (!product.whole && sums_in_pieces(tp, product, {})) return;
  // With shards, partial sums travel in the activations' type and are added in fp32; without, they stay fp32 throughout.
  Tensor partial{nullptr, {product.rows, product.cols}, tp.sequence_parallel ? product.out.dtype : DType::f32};
  Tensor sum{nullptr, {product.out.rows(), product.cols}, DType::f32};
  auto* memory = static_cast<char*>(ops_.scratch(align_up(partial.bytes()) + align_up(sum.bytes())));
  partial.data = memory;
  sum.data = memory + align_up(partial.bytes());
  product.make(0, product.rows, partial);
  if (tp.sequence_parallel) {
    tp.group->reduce_scatter(ops_.stream(), partial, sum);
  } else {
    tp.group->all_reduce(ops_.stream(), partial, Reduction::sum);
    sum.data = partial.data;
  }
  ops_.enqueue("adding the residual", [&](cudaStream_t native) { add_residual(native, sum, product.residual, product.out); });
}

void ParallelMatmul::weight_grad(const WeightGradArgs& args) {
  multiply({Product::dw, args.dy, args.x, args.accumulate == Accumulate::yes ? args.dw.data : nullptr, args.dw});
}

void ParallelMatmul::fp8_matmul(const Fp8MatmulArgs& args) {
  if (args.tp.size() == 1) return fp8_product(args);
  const auto make = [&](std::int64_t begin, std::int64_t end, const Tensor& part) {
    fp8_product({.a = {args.a.values.row_range(begin, end), args.a.scale, args.a.scales}, .b = args.b, .out = part});
  };
  PartialProduct product{args.a.values.rows(), args.b.values.rows(), make, args.addend, args.out};
  product.whole = args.a.scales == Fp8Scales::tiles;  // the scales of some rows are not contiguous
  sum_over_ranks(args.tp, product);
}

void ParallelMatmul::fp8_product(const Fp8MatmulArgs& args) {
  const auto factor = [](const Fp8Operand& operand) { return operand.scale.as<float>(); };
  multiply({.product = Product::y,
            .a = args.a.values,
            .b = args.b.values,
            .addend = args.addend ? args.addend->data : nullptr,
            .out = args.out,
            .a_scale = factor(args.a),
            .b_scale = factor(args.b),
            .a_scales = args.a.scales,
            .b_scales = args.b.scales});
}

bool ParallelMatmul::backward_scatter_in_pieces(const BackwardScatterArgs& args) {
  if (args.tp.size() == 1) return false;
  const MatmulScatterArgs scatter = args.matmul_scatter();
  return sums_in_pieces(args.tp, partial_product(scatter), [&] { weight_grad(args.weight_grad()); });
}

// Runs matmul_scatter so that the ranks' partial sums travel while others are computed, and while work that
// `meanwhile` enqueues runs. Returns false if that is not worthwhile. `meanwhile` must not use the scratch.
bool ParallelMatmul::sums_in_pieces(const TensorParallel& tp, const PartialProduct& product,
                                    const std::function<void()>& meanwhile) {
  const Tensor& out = product.out;
  Tensor partial{nullptr, {product.rows, product.cols}, out.dtype};
  PiecewiseTransfer* transfer = tp.sequence_parallel ? in_pieces(tp, partial) : nullptr;
  if (transfer == nullptr) return false;
  Tensor received{nullptr, {tp.size(), out.rows(), partial.cols()}, out.dtype};
  auto* memory = static_cast<char*>(ops_.scratch(align_up(partial.bytes()) + received.bytes()));
  partial.data = memory;
  received.data = memory + align_up(partial.bytes());
  const auto make = [&](std::int64_t begin, std::int64_t end) { product.make(begin, end, partial.row_range(begin, end)); };
  transfer->exchange(ops_.stream(), partial, received, make, meanwhile);
  const std::int64_t begin = tp.shard_begin(product.rows);
  const AddRanksArgs sum{.received = received,
                         .rank = tp.rank(),
                         .own = partial.row_range(begin, begin + out.rows()),
                         .residual = product.residual,
                         .out = out};
  ops_.enqueue("adding the ranks' sums", [&](cudaStream_t native) { add_ranks(native, sum); });
  return true;
}

void ParallelMatmul::matmul(const MatmulScatterArgs& args) {
  const Tensor& out = args.out;
  const Product product = args.kind == MatmulKind::forward ? Product::y : Product::dx;
  GemmOperands operands{product, args.in, args.w, args.residual ? args.residual->data : nullptr, out};
  const bool on_the_way =
      args.bias && takes_bias({out.rows(), out.cols(), args.in.cols(), product, args.in.dtype, out.dtype, true});
  if (on_the_way) operands.bias = args.bias->data;
  operands.product_factor = args.factor;
  multiply(operands);
  if (args.bias && !on_the_way) add_bias_apart(out, *args.bias);
}

void ParallelMatmul::add_bias_apart(const Tensor& x, const Tensor& bias) {
  ops_.enqueue("add_bias", [&](cudaStream_t native) { add_bias(native, x, bias); });
}

void ParallelMatmul::multiply(GemmOperands operands) {
  CudaStream& stream = ops_.stream();
  if (!stream.begin()) return;
  const Tensor& out = operands.out;
  if (operands.addend == out.data && out.dtype != DType::f32) {
    // If cuBLASLt adds in place, it rounds the product, then the sum. In separate memory it rounds once.
    void* apart = ops_.scratch(out.bytes());
    stream.copy(apart, operands.addend, out.bytes());
    operands.addend = apart;
  }
  const cublasStatus_t status = gemm_.run(stream.native(), operands, workspace_.data());
  if (status == CUBLAS_STATUS_SUCCESS) return;
  stream.fail(std::make_exception_ptr(
      Error(ErrorKind::peer_lost,
            to_string(stream.device().id()) + ": a matrix product failed: " + cublasLtGetStatusString(status))));
}

}  // namespace pipetrain::cuda
