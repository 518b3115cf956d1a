// Experts: the settings of layers whose MLP is routed, that is, replaced by many small MLPs of which each token uses a few.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pipetrain {

struct Experts {
  std::int64_t count = 0;         // in each routed layer; 0: no layer is routed
  std::int64_t chosen = 0;        // by each token
  std::int64_t intermediate = 0;  // the inner size of each expert
  // The inner size of one more expert, which all tokens pass through and whose output a sigmoid gate scales; 0: there is none.
  std::int64_t shared_intermediate = 0;
  bool normalised = true;  // the weights of a token's experts are divided by their sum
  // A layer is routed if its number, counted from 1, is a multiple of `step`, and it is not listed in dense_layers (from 0).
  std::int64_t step = 1;
  std::vector<std::int64_t> dense_layers = {};

  bool routes(std::int64_t layer) const {
    return count > 0 && (layer + 1) % step == 0 &&
           std::find(dense_layers.begin(), dense_layers.end(), layer) == dense_layers.end();
  }
  // Returns the inner columns that one token passes through.
  std::int64_t active_columns() const { return chosen * intermediate + shared_intermediate; }
  bool operator==(const Experts&) const = default;
};

// The losses that keep the experts' loads even, besides the cross-entropy: see Ops::route_backward.
struct RouterLossSettings {
  double balance = 0;     // coefficient of the balancing loss
  bool by_layer = false;  // a balancing loss for each layer by itself, which are added, instead of one for all layers together
  double z = 0;           // coefficient of the z-loss
  bool operator==(const RouterLossSettings&) const = default;
};

}  // namespace pipetrain
