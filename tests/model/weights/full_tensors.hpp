// Reads all of a model's logical tensors from a source, as files have them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/weights/weights.hpp"

namespace pipetrain::test {

using Tensors = std::map<std::string, std::vector<float>>;

inline Parameter whole(const NamedShape& tensor, Initialisation initialisation = Initialisation::normal) {
  Parameter parameter;
  parameter.name = tensor.name;
  parameter.full = parameter.local = tensor.shape;
  parameter.initialisation = initialisation;
  return parameter;
}

// Starts from the model's tensor of this name, if there is one.
inline Parameter whole(const ModelConfig& config, const NamedShape& tensor) {
  for (const Block& block : blocks_of(config)) {
    for (const TensorSpec& spec : block_tensors(config, block)) {
      if (spec.name == tensor.name) return whole(tensor, spec.initialisation);
    }
  }
  return whole(tensor);
}

inline std::vector<float> load(const WeightSource& source, const Parameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.local.elements()));
  source.load(parameter, values.data());
  return values;
}

inline Tensors load_all(const WeightSource& source, const ModelConfig& config) {
  Tensors tensors;
  for (const NamedShape& tensor : logical_tensors(config)) tensors[tensor.name] = load(source, whole(config, tensor));
  return tensors;
}

}  // namespace pipetrain::test
