// The layer of a further prediction (FurtherPrediction) in published files: its tensors, and the copies that it holds of the
// two matrices that it shares with the model.
#pragma once

#include <string>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

class HfTensors;

struct SharedCopy {
  std::string name;  // in the layer
  std::string of;    // the model's own tensor
};
// Returns the copies that the files of a model have whose run trains a further prediction; none for other models.
std::vector<SharedCopy> shared_copies(const ModelConfig& config);
// Throws Error(input) where the files hold a copy that differs from the model's own tensor. The model's tensors are there.
void check_shared_copies(const ModelConfig& config, const HfTensors& tensors);

// Returns the number of the layer that the name of a tensor gives, behind `prefix`; -1 where it gives none.
std::int64_t layer_of(const std::string& name, const std::string& prefix);
// True for a layer of the files that predicts a token after the next one.
bool predicts_further(const HfTensors& tensors, const std::string& prefix, std::int64_t layer);

}  // namespace pipetrain
