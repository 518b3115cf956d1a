// The router of a routed block: a matrix whose products with a token are the logits of the experts. It computes in fp32.
#pragma once

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class Router {
 public:
  explicit Router(const ModelConfig& config)
      : experts_(config.experts.count),
        chosen_(config.experts.chosen),
        routed_layers_(config.routed_layers()),
        normalised_(config.experts.normalised),
        rule_(score_rule(config.experts.scores)),
        has_bias_(config.experts.biases),
        is_corrected_(config.experts.scores.corrected),
        losses_(config.router_losses),
        settings_(config.experts),
        rules_(config.router_rules) {}
  void bind(const BoundTensors& tensors);

  // Returns the most rows of this rank's tokens.
  std::int64_t rows(const BlockContext& context) const { return context.tokens() * chosen_; }
  // normed: [T, H] of all ranks, which all compute the same routing. Its tensors are allocated in `memory`.
  Routing route(const BlockContext& context, const Tensor& normed, Arena& memory) const;
  // Adds the choices of each sequence to the microbatch's counts, if they are wanted.
  void count(const BlockContext& context, const Routing& routing) const;

  struct BackwardArgs {
    Routing routing;  // the forward's
    Tensor normed;    // [T, H], the forward's; must stay valid as long as WeightGradients requires
    Tensor dweights;  // [R] f32
  };
  // Returns the gradient of this rank's rows of `normed` through the router, [Tr, H], in the workspace.
  Tensor backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients) const;

 private:
  static ScoreRule score_rule(const RouterScores& scores);
  std::optional<RouterLosses> losses(const BlockContext& context, const Routing& routing) const;

  std::int64_t experts_, chosen_, routed_layers_;
  bool normalised_;
  ScoreRule rule_;
  bool has_bias_, is_corrected_;
  RouterLossSettings losses_;
  Experts settings_;
  RouterRules rules_;
  BoundTensor matrix_, bias_, correction_;
};

}  // namespace pipetrain
