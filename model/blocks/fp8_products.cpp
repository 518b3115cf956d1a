#include "model/blocks/fp8_products.hpp"

namespace pipetrain {
namespace {

Fp8Matrix multiply(const BlockContext& context, const Fp8ProductArgs& args, const Fp8Form& form, const Fp8Operand& weight) {
  const ArenaScope scope(context.workspace);
  const Fp8Matrix in = allocate_fp8(args.in.shape, form, {.rows = &context.workspace, .cols = args.cols}, args.scale);
  context.ops.quantise({.x = args.in, .out = in, .measured = args.scale.has_value()});
  context.ops.fp8_matmul({.tp = args.tp, .a = rows_of(in), .b = weight, .addend = args.addend, .out = args.out});
  return in;
}

}  // namespace

Fp8Matrix multiply_in_fp8(const BlockContext& context, const Fp8ProductArgs& args) {
  return multiply(context, args, values_beside(args.weight), rows_of(args.weight));
}

Fp8Matrix multiply_back_in_fp8(const BlockContext& context, const Fp8ProductArgs& args) {
  return multiply(context, args, gradients_beside(args.weight), cols_of(args.weight));
}

}  // namespace pipetrain
