// adapter_config.json of PEFT (github.com/huggingface/peft).
#pragma once

#include <filesystem>
#include <string>

#include "model/config/config.hpp"

namespace pipetrain {

inline constexpr const char *peft_config_file = "adapter_config.json", *peft_weights_file = "adapter_model.safetensors";

// Returns the model with the adapters and the trained parts that FOLDER/adapter_config.json describes. Throws Error(input)
// naming the file and the key, also for a method or an option that is not built.
ModelConfig with_peft_config(ModelConfig base, const std::filesystem::path& folder);
// Returns the text from which with_peft_config() makes config's adapters and trained parts. base: the model that they belong
// to, as PEFT finds it; may be empty.
std::string peft_config_text(const ModelConfig& config, const std::string& base);

}  // namespace pipetrain
