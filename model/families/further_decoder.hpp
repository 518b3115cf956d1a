// The keys and tensors of a further prediction (FurtherPrediction), as DeepSeek-V3's files have them: those of one more layer
// behind the last.
#pragma once

#include <vector>

#include "model/families/family.hpp"

namespace pipetrain {

// The key of config.json that gives the number of modules.
inline constexpr const char* further_layers_key = "num_nextn_predict_layers";

// Reads the number of modules that the files have. Throws Error(input) naming the key.
void read_further_prediction(const HfConfigReader& config, ModelConfig& model);

// Returns the tensors of the block `mtp`.
std::vector<TensorSpec> further_prediction_tensors(const ModelConfig& config);
// Returns the tensors of the head of a model with a further prediction: the norm of the further one, and the matrix of both.
std::vector<TensorSpec> head_tensors_of_two(const ModelConfig& config);

}  // namespace pipetrain
