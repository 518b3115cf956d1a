#include "model/experts/router.hpp"

namespace pipetrain {

ScoreRule Router::score_rule(const RouterScores& scores) {
  return {.sigmoid = scores.sigmoid,
          .groups = scores.groups,
          .chosen_groups = scores.chosen_groups,
          .pairs = scores.pairs,
          .scale = static_cast<float>(scores.scale)};
}

void Router::bind(const BoundTensors& tensors) {
  matrix_ = tensors.at(TensorRole::router_weight);
  if (has_bias_) bias_ = tensors.at(TensorRole::router_bias);
  if (is_corrected_) correction_ = tensors.at(TensorRole::router_correction);
}

Routing Router::route(const BlockContext& context, const Tensor& normed, Arena& memory) const {
  const std::int64_t tokens = context.tokens();
  const Routing routing{.probabilities = memory.allocate({tokens, experts_}, DType::f32),
                        .log_sum_exp = memory.allocate({tokens}, DType::f32),
                        .experts = memory.allocate({tokens, chosen_}, DType::i32),
                        .places = memory.allocate({tokens, chosen_}, DType::i32),
                        .tokens = memory.allocate({tokens * chosen_}, DType::i32),
                        .weights = memory.allocate({tokens * chosen_}, DType::f32),
                        .offsets = memory.allocate({experts_ + 1}, DType::i32)};
  const ArenaScope scope(context.workspace);
  const Tensor logits = context.workspace.allocate({tokens, experts_}, DType::f32);
  context.ops.gather_matmul({.kind = MatmulKind::forward,
                             .shard = normed,
                             .w = matrix_.weight,
                             .full = normed,
                             .out = logits,
                             .bias = has_bias_ ? std::optional(bias_.weight) : std::nullopt});
  context.ops.route({.logits = logits,
                     .normalised = normalised_,
                     .rule = rule_,
                     .bias = context.router == nullptr ? Tensor{} : context.router->bias,
                     .correction = correction_.weight,
                     .capacity = {context.shape.batch, expert_capacity(rules_, settings_, tokens / context.shape.batch)},
                     .routing = routing});
  return routing;
}

void Router::count(const BlockContext& context, const Routing& routing) const {
  if (context.router != nullptr)
    context.ops.count_experts(
        {.experts = routing.experts, .counts = context.router->counts, .sequences = context.router->sequences});
}

// A layer's own counts do not travel: they follow from its routing.
std::optional<RouterLosses> Router::losses(const BlockContext& context, const Routing& routing) const {
  if (context.router == nullptr) return {};
  RouterLosses losses{.counts = context.router->counts,
                      .sequences = context.router->sequences,
                      .layers = routed_layers_,
                      .balance_scale = static_cast<float>(losses_.balance) * context.router->sequence_scale,
                      .z_scale = static_cast<float>(losses_.z) * context.router->sequence_scale};
  if (losses_.by_layer) {
    losses.layers = 1;
    losses.counts = context.workspace.allocate(context.router->counts.shape, DType::i32);
    context.ops.zero(losses.counts);
    context.ops.count_experts({.experts = routing.experts, .counts = losses.counts, .sequences = losses.sequences});
  }
  return losses;
}

Tensor Router::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients) const {
  const std::int64_t tokens = context.tokens();
  const Tensor input_grad = context.workspace.allocate({context.shard_rows(), args.normed.shape[1]}, context.dtype);
  const Tensor logits_grad = gradients.allocate({tokens, experts_}, context.dtype);
  {
    const ArenaScope scope(context.workspace);
    const bool rounds = context.dtype != DType::f32;
    const Tensor exact = rounds ? context.workspace.allocate({tokens, experts_}, DType::f32) : logits_grad;
    context.ops.route_backward({.routing = args.routing,
                                .normalised = normalised_,
                                .rule = rule_,
                                .dweights = args.dweights,
                                .losses = losses(context, args.routing),
                                .dlogits = exact,
                                .statistics = context.router == nullptr ? Tensor{} : context.router->statistics});
    if (rounds) context.ops.round(exact, logits_grad);
  }
  const Tensor own_grad = context.own_rows(logits_grad);
  multiply_alone(context.ops, {MatmulKind::input_grad, own_grad, matrix_.weight, input_grad});
  if (has_bias_) {
    const ArenaScope scope(context.workspace);
    context.ops.bias_grad(own_grad, sums_of(context, bias_));
  }
  // Every rank has the whole matrix: under sequence parallelism each adds the gradient of its own tokens.
  gradients.unannounced().add({.dy = own_grad, .x = context.own_rows(args.normed), .dw = matrix_.grad});
  return input_grad;
}

}  // namespace pipetrain
