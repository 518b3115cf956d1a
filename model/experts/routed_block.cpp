#include "model/experts/routed_block.hpp"

#include "model/experts/expert_products.hpp"

namespace pipetrain {

// R rows: one for each token and expert of this rank that it has chosen, or the most that there may be.
struct RoutedBlock::RoutedSaved final : BlockCompute::Saved {
  Tensor input;  // [Tr, H]
  Norm::Statistics statistics;
  Tensor normed;  // [T, H]; without a shape if the backward computes it again, as are rows and inner
  Routing routing;
  ExpertExchange::Saved exchange;  // without tensors on a rank that holds all experts
  ExpertRows order;
  Tensor rows;       // [R, H], the experts' inputs
  Tensor projected;  // [R, 2I]
  Tensor inner;      // [R, I], times the rows' weights
  SharedExpert::Saved shared;
  ExpertAdapter::Saved in_adapter, out_adapter;  // without tensors where there are no adapters

  void relocate(const Relocation& moved) override {
    statistics.relocate(moved);
    moved.move(routing);
    exchange.relocate(moved);
    shared.relocate(moved);
    in_adapter.relocate(moved);
    out_adapter.relocate(moved);
    for (Tensor* const view : {&input, &normed, &order.tokens, &order.weights, &order.offsets, &rows, &projected, &inner})
      moved.move(*view);
  }
};

std::unique_ptr<BlockCompute::Saved> RoutedBlock::make_saved() const { return std::make_unique<RoutedSaved>(); }

void RoutedBlock::bind(const BoundTensors& tensors) {
  norm_.bind(tensors);
  router_.bind(tensors);
  in_ = tensors.at(TensorRole::expert_in_weight);
  out_ = tensors.at(TensorRole::expert_out_weight);
  if (biases_) biases_->bind(tensors);
  if (shared_) shared_->bind(tensors);
  if (in_adapter_) in_adapter_->bind(tensors);
  if (out_adapter_) out_adapter_->bind(tensors);
}

Tensor RoutedBlock::normed(const BlockContext& context, const RoutedSaved& saved, Arena& memory,
                           const std::optional<Tensor>& largest) const {
  const Tensor all = memory.allocate({context.tokens(), norm_.hidden()}, context.dtype);
  const Tensor own = context.own_rows(all);
  norm_.forward(context.ops, {.x = saved.input, .y = own, .statistics = saved.statistics, .largest = largest});
  if (context.gathers()) context.ops.gather({.tp = context.tp, .shard = own, .full = all});
  return all;
}

Tensor RoutedBlock::rows_of(const BlockContext& context, const Tensor& all, const RoutedSaved& saved, Arena& memory) const {
  const Tensor rows = memory.allocate({row_count(context), all.shape[1]}, context.dtype);
  const ArenaScope scope(context.workspace);
  const Tensor tokens = context.ep.part.is_whole() ? all : exchange_.send(context, all, saved.exchange);
  context.ops.gather_rows({.x = tokens, .tokens = saved.order.tokens, .rows = rows, .used = saved.order.used()});
  return rows;
}

Tensor RoutedBlock::brought_back(const BlockContext& context, const Tensor& computed, const RoutedSaved& saved) const {
  return context.ep.part.is_whole() ? computed : exchange_.bring_back(context, computed, saved.exchange);
}

Tensor RoutedBlock::weighed_inner(const BlockContext& context, const RoutedSaved& saved, Arena& memory,
                                  const std::optional<Tensor>& largest) const {
  const Tensor inner = memory.allocate({row_count(context), inner_cols()}, context.dtype);
  context.ops.swiglu({.gate_up = saved.projected,
                      .y = inner,
                      .largest = largest,
                      .gate = gate_,
                      .used = saved.order.used(),
                      .clamps = clamps_,
                      .weights = saved.order.weights});
  return inner;
}

void RoutedBlock::expand(const BlockContext& context, const Tensor& input, const KeptMemory& memory, RoutedSaved& saved) const {
  Arena* const kept = context.gathers() ? memory.inputs : memory.remade;
  saved.input = input;
  saved.statistics = norm_.allocate_statistics(context.shard_rows(), *memory.results);
  // Rows are copies of tokens, so those of this rank's own tokens share the tokens' largest magnitude.
  const bool measures = context.ep.part.is_whole() && !context.gathers();
  const auto scale = measures ? scale_beside(in_, context.workspace) : std::nullopt;
  const Tensor all = normed(context, saved, kept ? *kept : context.workspace, place_of_largest(scale));
  saved.normed = kept ? all : Tensor{};
  saved.routing = router_.route(context, all, *memory.results);
  saved.order = context.ep.part.is_whole() ? ExpertRows{saved.routing.tokens, saved.routing.weights, saved.routing.offsets}
                                           : exchange_.begin(context, saved.routing, *memory.results, saved.exchange);
  if (shared_) shared_->expand(context, all, memory, saved.shared);
  const Tensor rows = rows_of(context, all, saved, memory.remade ? *memory.remade : context.workspace);
  saved.rows = memory.remade ? rows : Tensor{};
  saved.projected = memory.results->allocate({row_count(context), 2 * inner_cols()}, context.dtype);
  multiply_rows(context, {.matrix = in_,
                          .in = rows,
                          .order = saved.order,
                          .out = saved.projected,
                          .bias = biases_ ? std::optional(biases_->of_projected()) : std::nullopt,
                          .scale = scale});
  if (in_adapter_ && !context.base_alone)
    in_adapter_->forward(context, {rows, saved.order.offsets, saved.projected}, *memory.inputs, saved.in_adapter);
}

// The weights multiply the inputs of the experts' last matrices rather than their outputs. So the weights' gradient needs no
// outputs, which are the larger ones.
void RoutedBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& saved_memory, Saved& saved_base) const {
  auto& saved = static_cast<RoutedSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  const KeptMemory memory = forward_memory(context, saved_memory);
  expand(context, args.input, memory, saved);
  router_.count(context, saved.routing);
  const auto scale = scale_beside(out_, context.workspace);
  const Tensor inner =
      weighed_inner(context, saved, memory.remade ? *memory.remade : context.workspace, place_of_largest(scale));
  saved.inner = memory.remade ? inner : Tensor{};
  const Tensor outputs = context.workspace.allocate({row_count(context), norm_.hidden()}, context.dtype);
  multiply_rows(context, {.matrix = out_,
                          .in = inner,
                          .order = saved.order,
                          .out = outputs,
                          .bias = biases_ ? std::optional(biases_->of_outputs(context, outputs, saved.order)) : std::nullopt,
                          .scale = scale});
  if (out_adapter_ && !context.base_alone)
    out_adapter_->forward(context, {inner, saved.order.offsets, outputs}, saved_memory, saved.out_adapter);
  const Tensor own_outputs = brought_back(context, outputs, saved);
  const auto addend = shared_ ? std::optional(shared_->output(context, memory, saved_memory, saved.shared)) : std::nullopt;
  context.ops.sum_rows({.tp = context.tp,
                        .rows = own_outputs,
                        .places = saved.routing.places,
                        .addend = addend,
                        .residual = args.input,
                        .out = args.output});
}

Tensor RoutedBlock::gathered(const BlockContext& context, const Tensor& output_grad, WeightGradients& gradients) const {
  if (!context.gathers()) return output_grad;
  Arena& memory = shared_ ? gradients.memory() : context.workspace;  // the routed experts have copies of their rows
  const Tensor all = memory.allocate({context.tokens(), norm_.hidden()}, context.dtype);
  context.ops.gather({.tp = context.tp, .shard = output_grad, .full = all});
  return all;
}

void RoutedBlock::last_matrices_backward(const BlockContext& context, const MatrixGradients& args, WeightGradients& gradients,
                                         const RoutedSaved& saved) const {
  const Tensor& offsets = saved.order.offsets;
  gradients.add_grouped({.dy = args.output_grads, .x = args.inner, .offsets = offsets, .dw = out_.grad});
  multiply_rows_back(context, {.matrix = out_, .in = args.output_grads, .order = saved.order, .out = args.inner_grad});
  if (out_adapter_)
    out_adapter_->backward(context, {args.output_grads, args.inner, offsets, args.inner_grad}, gradients, saved.out_adapter);
}

Tensor RoutedBlock::experts_backward(const BlockContext& context, const OutputGradients& args, WeightGradients& gradients,
                                     const RoutedSaved& saved) const {
  const ExpertRows& order = saved.order;
  const Tensor dweights = context.workspace.allocate({row_count(context)}, DType::f32);
  const ArenaScope scope(context.workspace);
  const Tensor output_grads = rows_of(context, args.output_grad, saved, gradients.memory());
  const Tensor inner = saved.inner.shape.rank() > 0 ? saved.inner : weighed_inner(context, saved, gradients.memory());
  const Tensor inner_grad = context.workspace.allocate(inner.shape, context.dtype);
  last_matrices_backward(context, {output_grads, inner, inner_grad}, gradients, saved);
  context.ops.weighed_swiglu_backward({.tp = context.tp,
                                       .dy = inner_grad,
                                       .gate_up = saved.projected,
                                       .weights = order.weights,
                                       .dgate_up = saved.projected,
                                       .dweights = dweights,
                                       .addend = biases_ ? biases_->outputs_backward(context, output_grads, order) : Tensor{},
                                       .largest = place_of_largest(args.projected_scale),
                                       .gate = gate_,
                                       .used = order.used(),
                                       .clamps = clamps_});
  if (biases_) biases_->projected_backward(context, saved.projected, order);
  return dweights;
}

void RoutedBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                           Saved& saved_base) const {
  auto& saved = static_cast<RoutedSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  // W reads the routing and the gradient that is written over `projected`.
  Arena& memory = gradients.memory();
  if (runs_forward_again(context)) expand(context, saved.input, {&memory, &memory, &memory}, saved);
  const Tensor all = saved.normed.shape.rank() > 0 ? saved.normed : normed(context, saved, memory);
  const Tensor rows = saved.rows.shape.rank() > 0 ? saved.rows : rows_of(context, all, saved, memory);
  const Tensor output_grad = gathered(context, args.output_grad, gradients);
  const auto scale = scale_beside(in_, context.workspace);
  const Tensor dweights = brought_back(context, experts_backward(context, {output_grad, scale}, gradients, saved), saved);
  gradients.add_grouped({.dy = saved.projected, .x = rows, .offsets = saved.order.offsets, .dw = in_.grad});
  const Tensor rows_grad = context.workspace.allocate(rows.shape, context.dtype);
  multiply_rows_back(context, {.matrix = in_, .in = saved.projected, .order = saved.order, .out = rows_grad, .scale = scale});
  if (in_adapter_)
    in_adapter_->backward(context, {saved.projected, rows, saved.order.offsets, rows_grad}, gradients, saved.in_adapter);
  const Tensor own_rows_grad = brought_back(context, rows_grad, saved);
  const Tensor router_grad =
      router_.backward(context, {.routing = saved.routing, .normed = all, .dweights = dweights}, gradients);
  std::optional<Tensor> addend;
  if (shared_) {
    const SharedExpert::BackwardArgs shared{.output_grad = output_grad, .normed = all, .router_grad = router_grad};
    addend = shared_->backward(context, shared, gradients, saved.shared);
  }
  const Tensor normed_grad = context.workspace.allocate({context.shard_rows(), norm_.hidden()}, context.dtype);
  context.ops.sum_rows({.tp = context.tp,
                        .rows = own_rows_grad,
                        .places = saved.routing.places,
                        .addend = addend,
                        .residual = router_grad,
                        .out = normed_grad});
  norm_.backward(context, {.dy = normed_grad,
                           .x = saved.input,
                           .statistics = saved.statistics,
                           .residual = args.output_grad,
                           .dx = args.input_grad});
}

}  // namespace pipetrain
