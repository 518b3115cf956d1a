// The model that the settings `model` and `layers` name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/config/config.hpp"

namespace pipetrain {

// Returns the configuration of the model stored on disk under that name (weights/stored_model.hpp) or else of a
// preset, cut to its first `layers`. Throws Error(input) with the setting that is wrong.
ModelConfig named_model(const std::string& model, std::optional<std::int64_t> layers);

}  // namespace pipetrain
