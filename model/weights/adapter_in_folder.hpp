// Adapters of PEFT (github.com/huggingface/peft): small weights that are added to those of a base model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace pipetrain {

// Returns a description of the adapter in a folder, alone or with a model's weights: "is a LoRA adapter (FILE),
// ...", with advice what to do; nothing if there is none. transformers adds such an adapter to the weights in
// the folder, so the weights alone are a different model.
std::optional<std::string> adapter_in(const std::filesystem::path& folder);

}  // namespace pipetrain
