// Detects files of a tied model that hold a separate output head.
#pragma once

#include <filesystem>

#include "model/config/config.hpp"
#include "model/weights/hf_tensors.hpp"

namespace pipetrain {

// Returns true if the weights in a Hugging Face folder hold an embedding and a head of different values
// although `config` ties them; transformers 5 then keeps them apart, whatever config.json says. Reads both
// until they differ. Returns false if one of them is missing, which is a tie, and for a folder without weights.
// Throws Error(input) if a file cannot be read.
bool has_own_head(const ModelConfig& config, const std::filesystem::path& folder);
// Checks tensors that are already open.
bool has_own_head(const ModelConfig& config, const HfTensors& tensors);
// Returns true if the two tensors hold the same values; both have so many elements. Reads them until they differ.
bool same_values(const HfTensors::Location& a, const HfTensors::Location& b, std::int64_t elements);

}  // namespace pipetrain
