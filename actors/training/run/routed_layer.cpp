#include "actors/training/run/routed_layer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipetrain {

ExpertLoad expert_load(const std::vector<RoutedLayer>& layers) {
  ExpertLoad load;
  for (const RoutedLayer& layer : layers) {
    const auto experts = static_cast<double>(layer.loads.size());
    const double mean = std::accumulate(layer.loads.begin(), layer.loads.end(), 0.0) / experts;
    double squares = 0;
    for (const double one : layer.loads) squares += (one - mean) * (one - mean);
    load.max = std::max(load.max, *std::max_element(layer.loads.begin(), layer.loads.end()) / mean);
    load.cv = std::max(load.cv, std::sqrt(squares / experts) / mean);
  }
  return load;
}

}  // namespace pipetrain
