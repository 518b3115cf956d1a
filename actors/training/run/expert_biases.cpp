#include "actors/training/run/expert_biases.hpp"

#include <cassert>
#include <cstring>
#include <numeric>

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

ExpertBiases::ExpertBiases(const TrainJob& job)
    : rate_(static_cast<float>(job.config.router_rules.bias_rate)), values_(job.initial.expert_biases) {
  if (values_.empty() && rate_ > 0)
    values_.assign(static_cast<std::size_t>(job.config.routed_layers()),
                   std::vector<float>(static_cast<std::size_t>(job.config.experts.count)));
}

void ExpertBiases::step(const std::vector<RoutedLayer>& layers) {
  if (rate_ == 0 || layers.empty()) return;
  assert(layers.size() == values_.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::vector<double>& loads = layers[i].loads;
    const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      if (loads[expert] != mean) values_[i][expert] += loads[expert] > mean ? -rate_ : rate_;
    }
  }
}

std::shared_ptr<const std::vector<std::byte>> ExpertBiases::content() const {
  if (values_.empty()) return nullptr;
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (const std::vector<float>& layer : values_) {
    const std::size_t begin = bytes->size();
    bytes->resize(begin + layer.size() * sizeof(float));
    std::memcpy(bytes->data() + begin, layer.data(), layer.size() * sizeof(float));
  }
  return bytes;
}

}  // namespace pipetrain
