// Hugging Face's config.json as text that does not stand in a folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/config/config.hpp"

namespace pipetrain {

// The most bytes of a config.json that are read.
inline constexpr std::size_t most_config_bytes = std::size_t{4} << 20;

// Parses a text as read_hf_config() does; `name` is the name of the text in errors.
ModelConfig parse_hf_config(std::string_view text, const std::string& name);

}  // namespace pipetrain
