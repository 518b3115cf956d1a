#include "model/experts/shared_expert.hpp"

#include "model/blocks/fp8_products.hpp"

namespace pipetrain {
namespace {

void multiply(const BlockContext& context, const BoundTensor& matrix, const Tensor& in, const Tensor& out) {
  if (!matrix.in_fp8()) return multiply_alone(context.ops, {MatmulKind::forward, in, matrix.weight, out});
  multiply_in_fp8(context, {.weight = matrix.fp8, .in = in, .out = out});
}

void multiply_back(const BlockContext& context, const BoundTensor& matrix, const Tensor& in, const Tensor& out) {
  if (!matrix.in_fp8()) return multiply_alone(context.ops, {MatmulKind::input_grad, in, matrix.weight, out});
  multiply_back_in_fp8(context, {.weight = matrix.fp8, .in = in, .out = out});
}

}  // namespace

void SharedExpert::add_adapter(const BlockContext& context, const LowRankAdapter& adapter, const Tensor& in, const Tensor& out,
                               const LowRankAdapter::Saved& saved) const {
  adapter.forward(context.alone(), {}, {.input = in, .residual = out, .output = out}, saved);
}

void SharedExpert::bind(const BoundTensors& tensors) {
  in_ = tensors.at(TensorRole::shared_in_weight);
  out_ = tensors.at(TensorRole::shared_out_weight);
  if (has_gate_) gate_ = tensors.at(TensorRole::shared_gate_weight);
  if (in_adapter_) in_adapter_->bind(tensors);
  if (out_adapter_) out_adapter_->bind(tensors);
}

void SharedExpert::expand(const BlockContext& context, const Tensor& normed, const KeptMemory& memory, Saved& saved) const {
  const std::int64_t tokens = context.tokens();
  if (has_gate_) saved.gates = memory.results->allocate({tokens}, DType::f32);
  saved.projected = memory.results->allocate({tokens, in_.weight.rows()}, context.dtype);
  multiply(context, in_, normed, saved.projected);
  if (in_adapter_ && !context.base_alone) {
    in_adapter_->reserve(tokens, context.dtype, *memory.inputs, saved.in_adapter);
    add_adapter(context, *in_adapter_, normed, saved.projected, saved.in_adapter);
  }
  if (!has_gate_) return;
  const ArenaScope scope(context.workspace);
  const Tensor logits = context.workspace.allocate({tokens, 1}, DType::f32);
  multiply_alone(context.ops, {MatmulKind::forward, normed, gate_.weight, logits});
  context.ops.sigmoid({.x = logits.reshaped({tokens}), .y = saved.gates});
}

Tensor SharedExpert::activated(const BlockContext& context, const Saved& saved, Arena& memory) const {
  const Tensor inner = memory.allocate({context.tokens(), out_.weight.cols()}, context.dtype);
  context.ops.swiglu({.gate_up = saved.projected, .y = inner, .weights = has_gate_ ? saved.gates : Tensor{}});
  return inner;
}

Tensor SharedExpert::output(const BlockContext& context, const KeptMemory& memory, Arena& results, Saved& saved) const {
  const Tensor output = context.workspace.allocate({context.tokens(), out_.weight.rows()}, DType::f32);
  const Tensor inner = activated(context, saved, memory.remade ? *memory.remade : context.workspace);
  saved.inner = memory.remade ? inner : Tensor{};
  multiply(context, out_, inner, output);
  if (out_adapter_ && !context.base_alone) {
    out_adapter_->reserve(context.tokens(), context.dtype, results, saved.out_adapter);
    add_adapter(context, *out_adapter_, inner, output, saved.out_adapter);
  }
  return output;
}

void SharedExpert::gate_backward(const BlockContext& context, const BackwardArgs& args, const Tensor& gates_grad,
                                 WeightGradients& gradients, const Saved& saved) const {
  const std::int64_t tokens = context.tokens();
  const Tensor logits_grad = gradients.allocate({tokens, 1}, context.dtype);
  context.ops.sigmoid_backward({.dy = gates_grad, .y = saved.gates, .dx = gates_grad});
  context.ops.round(gates_grad, logits_grad.reshaped({tokens}));
  context.ops.matmul_scatter({.kind = MatmulKind::input_grad,
                              .in = context.own_rows(logits_grad),
                              .w = gate_.weight,
                              .residual = args.router_grad,
                              .out = args.router_grad});
  gradients.unannounced().add({.dy = context.own_rows(logits_grad), .x = context.own_rows(args.normed), .dw = gate_.grad});
}

void SharedExpert::activated_backward(const BlockContext& context, const BackwardArgs& args, const Tensor& inner_grad,
                                      WeightGradients& gradients, const Saved& saved) const {
  const Tensor& projected = saved.projected;
  if (!has_gate_) return context.ops.swiglu_backward({.dy = inner_grad, .gate_up = projected, .dgate_up = projected});
  const Tensor gates_grad = context.workspace.allocate({context.tokens()}, DType::f32);
  context.ops.weighed_swiglu_backward({.tp = context.tp,
                                       .dy = inner_grad,
                                       .gate_up = projected,
                                       .weights = saved.gates,
                                       .dgate_up = projected,
                                       .dweights = gates_grad});
  gate_backward(context, args, gates_grad, gradients, saved);
}

Tensor SharedExpert::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                              const Saved& saved) const {
  const Tensor normed_grad = context.workspace.allocate(args.normed.shape, DType::f32);
  const ArenaScope scope(context.workspace);
  const Tensor inner = saved.inner.shape.rank() > 0 ? saved.inner : activated(context, saved, gradients.memory());
  gradients.add({.dy = args.output_grad, .x = inner, .dw = out_.grad});
  const Tensor inner_grad = context.workspace.allocate(inner.shape, context.dtype);
  multiply_back(context, out_, args.output_grad, inner_grad);
  if (out_adapter_)
    out_adapter_->backward_rows(context.alone(),
                                {.output_grad = args.output_grad,
                                 .own_grad = args.output_grad,
                                 .input = inner,
                                 .residual = inner_grad,
                                 .input_grad = inner_grad},
                                gradients, saved.out_adapter);
  activated_backward(context, args, inner_grad, gradients, saved);
  gradients.add({.dy = saved.projected, .x = args.normed, .dw = in_.grad});
  multiply_back(context, in_, saved.projected, normed_grad);
  if (in_adapter_)
    in_adapter_->backward_columns(
        context.alone(),
        {.output_grad = saved.projected, .input = args.normed, .residual = normed_grad, .input_grad = normed_grad}, gradients,
        saved.in_adapter);
  return normed_grad;
}

}  // namespace pipetrain
