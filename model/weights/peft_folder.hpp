// Folders of adapters as PEFT saves them (github.com/huggingface/peft): adapter_config.json and adapter_model.safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "model/weights/weights.hpp"

namespace pipetrain {

// Returns weights that come from `trained` where a tensor of the model is trained, and from `base` where it is frozen.
std::unique_ptr<WeightSource> adapted_weights(std::shared_ptr<const WeightSource> base,
                                              std::shared_ptr<const WeightSource> trained);
// Returns weights that begin new adapters: drawn ones, and magnitudes that are the norms of the rows of their matrices; and
// those of `base` for all else.
std::unique_ptr<WeightSource> new_adapter_weights(const ModelConfig& config, std::shared_ptr<const WeightSource> base,
                                                  std::uint64_t seed);
// Opens FOLDER/adapter_model.safetensors, which has the trained tensors of a model that with_peft_config() made. Throws
// Error(input) if one is missing or has another shape, or if the file has others; those of a further prediction that the run
// does not train are left unread.
std::shared_ptr<const WeightSource> peft_weights(const ModelConfig& config, const std::filesystem::path& folder);

// Returns the trained tensors of the model, as indices in logical_tensors(config).
std::vector<std::size_t> trained_tensors(const ModelConfig& config);
// Writes the model's trained tensors as PEFT does, and the companions, from fill(i, out) as in save_hf_model(), in one file.
// base: as in peft_config_text(). The folder appears whole or not at all. Throws as save_hf_model() does.
void save_peft_folder(const ModelConfig& config, const std::filesystem::path& folder, const std::string& base,
                      const std::function<void(std::size_t, float*)>& fill, const ModelFolderOptions& options);

}  // namespace pipetrain
