#include "actors/training/checkpoint/choice_biases.hpp"

#include <map>
#include <string>
#include <utility>

#include "model/weights/weights.hpp"

namespace pipetrain {

std::function<void(std::size_t, float*)> with_choice_biases(const ModelConfig& config,
                                                            const std::vector<std::vector<float>>& biases,
                                                            std::function<void(std::size_t, float*)> fill) {
  if (!config.experts.scores.corrected || biases.empty()) return fill;
  std::map<std::string, std::vector<float>> added;
  std::size_t routed = 0;
  for (const Block& block : blocks_of(config)) {
    if (block.kind != BlockKind::experts) continue;
    for (const TensorSpec& tensor : block_tensors(config, block))
      if (tensor.role == TensorRole::router_correction) added[tensor.name] = biases.at(routed);
    ++routed;
  }
  return [added = std::move(added), tensors = logical_tensors(config), fill = std::move(fill)](std::size_t i, float* out) {
    fill(i, out);
    const auto found = added.find(tensors[i].name);
    if (found == added.end()) return;
    for (std::size_t expert = 0; expert < found->second.size(); ++expert) out[expert] += found->second[expert];
  };
}

}  // namespace pipetrain
