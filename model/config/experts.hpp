// Experts: the settings of layers whose MLP is routed, that is, replaced by many small MLPs of which each token uses a few.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace pipetrain {

// The gated unit of experts, with clamps: y = (u + 1) g sigmoid(alpha g), where g is the gate, at most `limit`, and u the other
// half, between -limit and limit (OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card").
struct GateClamp {
  double alpha = 1, limit = 0;  // limit 0: the unit is SwiGLU, without clamps

  bool exists() const { return limit > 0; }
  bool operator==(const GateClamp&) const = default;
};

// How a router chooses experts and weighs them, where it differs from a softmax over all experts.
struct RouterScores {
  bool sigmoid = false;  // a logit's score is its sigmoid rather than its share of the softmax
  // The experts are divided into `groups` neighbouring ones, and a token chooses only from the `chosen_groups` with the highest
  // scores: a group's score is that of its best expert, or with `pairs` the sum of the best two.
  std::int64_t groups = 1, chosen_groups = 1;
  bool pairs = false;
  double scale = 1;        // of the weights, after they are normalised
  bool corrected = false;  // the model has a bias for each expert, which is added to its score for the choice alone
  bool operator==(const RouterScores&) const = default;
};

struct Experts {
  std::int64_t count = 0;         // in each routed layer; 0: no layer is routed
  std::int64_t chosen = 0;        // by each token
  std::int64_t intermediate = 0;  // the inner size of each expert
  // The inner size of one more expert, which all tokens pass through; 0: there is none.
  std::int64_t shared_intermediate = 0;
  bool normalised = true;  // the weights of a token's experts are divided by their sum
  // A layer is routed if its number, counted from 1, is a multiple of `step`, and it is not listed in dense_layers (from 0).
  std::int64_t step = 1;
  std::vector<std::int64_t> dense_layers = {};
  bool shared_gate = true;  // a sigmoid gate, one number a token, scales the shared expert's output
  bool biases = false;      // of the router and of both matrices of each expert
  GateClamp clamp = {};
  RouterScores scores = {};

  bool routes(std::int64_t layer) const {
    return count > 0 && (layer + 1) % step == 0 &&
           std::find(dense_layers.begin(), dense_layers.end(), layer) == dense_layers.end();
  }
  // Returns the inner columns that one token passes through.
  std::int64_t active_columns() const { return chosen * intermediate + shared_intermediate; }
  bool operator==(const Experts&) const = default;
};

// The experts of every routed layer that a rank holds: those of one of `size` ranks, which have equally many neighbours each.
struct ExpertPart {
  int rank = 0, size = 1;

  bool is_whole() const { return size == 1; }
  // expert: its number among `count`, which size divides.
  bool holds(std::int64_t expert, std::int64_t count) const { return expert / (count / size) == rank; }
};

// The losses that keep the experts' loads even, besides the cross-entropy: see Ops::route_backward.
struct RouterLossSettings {
  double balance = 0;     // coefficient of the balancing loss
  bool by_layer = false;  // a balancing loss for each layer by itself, which are added, instead of one for all layers together
  double z = 0;           // coefficient of the z-loss
  bool operator==(const RouterLossSettings&) const = default;
};

// Other means against uneven loads.
struct RouterRules {
  // An expert takes this times the mean load of a sequence's tokens in a layer, see expert_capacity(); 0: all.
  double capacity = 0;
  // The step of each expert's bias, which is added to its probability for the choice alone; 0: no expert has one.
  double bias_rate = 0;
  bool operator==(const RouterRules&) const = default;
};

// Returns the most tokens that an expert takes of a sequence of so many, at least 1; 0 where nothing is dropped.
inline std::int64_t expert_capacity(const RouterRules& rules, const Experts& experts, std::int64_t tokens) {
  if (rules.capacity == 0) return 0;
  const double mean = static_cast<double>(tokens * experts.chosen) / static_cast<double>(experts.count);
  return std::max<std::int64_t>(static_cast<std::int64_t>(std::ceil(rules.capacity * mean)), 1);
}

}  // namespace pipetrain
