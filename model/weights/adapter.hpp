// Adapters of PEFT (github.com/huggingface/peft): small weights that are added to those of a base model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace pipetrain {

// What to tell of a folder with an adapter in it, alone or beside a model's weights: "is a LoRA adapter (FILE), ...", with what
// to do. transformers adds such an adapter to the weights beside it, so that the weights alone are another model. Nothing where
// there is none.
std::optional<std::string> adapter_in(const std::filesystem::path& folder);

}  // namespace pipetrain
