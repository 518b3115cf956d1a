// Files of a tied model that have a head of its own all the same.
#pragma once

#include <filesystem>

#include "model/config/config.hpp"

namespace pipetrain {

class HfTensors;

// Returns true when the weights in a Hugging Face folder hold an embedding and a head of different values, though `config` ties
// them: transformers 5 then keeps them apart, whatever config.json says. Reads both as far as they are equal. Returns false
// where one of them is missing, which is a tie, and for a folder without weights. Throws Error(input) where a file cannot be
// read.
bool has_own_head(const ModelConfig& config, const std::filesystem::path& folder);
// The same of its tensors.
bool has_own_head(const ModelConfig& config, const HfTensors& tensors);

}  // namespace pipetrain
