// The keys by which Qwen2 and Qwen3 say which layers attend within a window.
#pragma once

#include "model/config/config.hpp"
#include "model/families/keys/hf_config_reader.hpp"

namespace pipetrain {

// Reads sliding_window, use_sliding_window, max_window_layers (the first layer within the window, usually 28) and layer_types,
// which wins. Throws Error(input) naming the key.
void read_qwen_windows(const HfConfigReader& config, ModelConfig& model);
void write_qwen_windows(const ModelConfig& config, Json& text);

}  // namespace pipetrain
