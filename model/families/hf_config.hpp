// Reads a Hugging Face config.json that is parsed already.
#pragma once

#include <string>
#include <vector>

#include "files/json_value.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

// Reads an object as read_hf_config() does; `name` is the name of its file in errors. Adds the keys that the model was read
// from to `understood`, which may be null. Throws Error(input), an HfKeyError where it is about one key.
ModelConfig read_config_object(const Json& object, const std::string& name, std::vector<std::string>* understood = nullptr);

// Returns true if model_type names a family, or, where that key is absent, one of architectures does. No other key counts.
bool names_known_family(const Json& object, const std::string& name);

}  // namespace pipetrain
