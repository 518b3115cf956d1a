// Detects files of a tied model that hold a separate output head.
#pragma once

#include <filesystem>

#include "model/config/config.hpp"

namespace pipetrain {

class HfTensors;

// Returns true if the weights in a Hugging Face folder hold an embedding and a head of different values
// although `config` ties them; transformers 5 then keeps them apart, whatever config.json says. Reads both
// until they differ. Returns false if one of them is missing, which is a tie, and for a folder without weights.
// Throws Error(input) if a file cannot be read.
bool has_own_head(const ModelConfig& config, const std::filesystem::path& folder);
// Checks tensors that are already open.
bool has_own_head(const ModelConfig& config, const HfTensors& tensors);

}  // namespace pipetrain
