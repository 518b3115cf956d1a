// The matrices that files hold more than once: detects a separate output head of a tied model, and lists the copies in the
// layer of a further prediction (FurtherPrediction).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

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

struct SharedCopy {
  std::string name;  // in the further layer
  std::string of;    // the model's own tensor
};
// Returns the copies that the files of a model have whose run trains a further prediction; none for other models.
std::vector<SharedCopy> shared_copies(const ModelConfig& config);
// Throws Error(input) where the files hold a copy that differs from the model's own tensor. The model's tensors are there.
void check_shared_copies(const ModelConfig& config, const HfTensors& tensors);

}  // namespace pipetrain
