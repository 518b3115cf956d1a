// ExpertBiases keeps a bias for each expert, which is added to its probability for the choice alone. After each step the
// biases of experts that were chosen more often than the mean fall, and those of the others rise, all by the same amount
// (Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing", as DeepSeek-V3 trains). Loads are those of the global batch, so the
// biases depend on no layout.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "actors/training/run/routed_layer.hpp"

namespace pipetrain {

struct TrainJob;

// Not thread-safe.
class ExpertBiases {
 public:
  // Continues from the job's initial biases.
  explicit ExpertBiases(const TrainJob& job);

  // Moves the biases after a step in which experts had these loads. layers: all routed ones, in order.
  void step(const std::vector<RoutedLayer>& layers);
  // Returns what StepInfo::content carries to all ranks: see RankExpertBiases. Null where no expert has a bias.
  std::shared_ptr<const std::vector<std::byte>> content() const;
  // By routed layer and expert; empty where no expert has a bias.
  const std::vector<std::vector<float>>& values() const { return values_; }
  // Goes back to earlier values().
  void restore(std::vector<std::vector<float>> values) { values_ = std::move(values); }

 private:
  float rate_;
  std::vector<std::vector<float>> values_;
};

}  // namespace pipetrain
