#include "model/experts/expert_products.hpp"

#include "model/blocks/fp8_memory.hpp"

namespace pipetrain {
namespace {

void multiply(const BlockContext& context, MatmulKind kind, const ExpertProductArgs& args) {
  const BoundTensor& matrix = args.matrix;
  const Tensor& offsets = args.order.offsets;
  if (!matrix.in_fp8()) {
    context.ops.grouped_matmul(
        {.kind = kind, .in = args.in, .w = matrix.weight, .offsets = offsets, .out = args.out, .bias = args.bias});
    return;
  }
  const bool forward = kind == MatmulKind::forward;
  const ArenaScope scope(context.workspace);
  const Fp8Form form = forward ? values_beside(matrix.fp8) : gradients_beside(matrix.fp8);
  const Fp8Matrix in = allocate_fp8(args.in.shape, form, {.rows = &context.workspace}, args.scale);
  context.ops.quantise({.x = args.in, .out = in, .measured = args.scale.has_value(), .used = args.order.used()});
  context.ops.grouped_fp8_matmul({.kind = kind,
                                  .in = rows_of(in),
                                  .w = forward ? rows_of(matrix.fp8) : cols_of(matrix.fp8),
                                  .offsets = offsets,
                                  .out = args.out,
                                  .bias = args.bias});
}

}  // namespace

std::optional<Tensor> scale_beside(const BoundTensor& matrix, Arena& memory) {
  return matrix.in_fp8() ? std::optional(allocate_fp8_scale(memory)) : std::nullopt;
}

std::optional<Tensor> place_of_largest(const std::optional<Tensor>& scale) {
  return scale ? std::optional(largest_of(*scale)) : std::nullopt;
}

void multiply_rows(const BlockContext& context, const ExpertProductArgs& args) { multiply(context, MatmulKind::forward, args); }

void multiply_rows_back(const BlockContext& context, const ExpertProductArgs& args) {
  multiply(context, MatmulKind::input_grad, args);
}

}  // namespace pipetrain
