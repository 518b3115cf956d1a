// Files of a tied model that have a head of its own all the same.
#pragma once

#include <filesystem>

#include "model/config.hpp"

namespace pipetrain {

class HfTensors;

// Whether the weights of a Hugging Face folder, of this configuration, which ties the embeddings, hold embedding and head with
// different values. transformers 5 then keeps them apart, whatever config.json says. Reads both as far as they are equal; false
// where one of them is not there, which is a tie, and for a folder without weights. Throws Error(input) for what the files'
// readers refuse.
bool has_own_head(const ModelConfig& config, const std::filesystem::path& folder);
// The same of its tensors.
bool has_own_head(const ModelConfig& config, const HfTensors& tensors);

}  // namespace pipetrain
