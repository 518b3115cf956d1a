// RoutedLayer has the numbers of tokens that one layer's router sent to its experts in a step.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain {

struct RoutedLayer {
  std::int64_t layer = 0;
  std::vector<double> loads;  // by expert: how many tokens have chosen it
  double balance = 0, z = 0;  // the layer's shares of the balancing loss and of the z-loss, added over sequences
  double dropped = 0;         // choices that found their expert full
};

// Both are over all experts of a layer, and the largest of any layer: the largest load divided by the mean, which is 1 where
// all are equal, and the standard deviation divided by the mean.
struct ExpertLoad {
  double max = 0, cv = 0;
};
// layers: at least one, with loads that are not all 0.
ExpertLoad expert_load(const std::vector<RoutedLayer>& layers);

}  // namespace pipetrain
