// The keys of config.json that say which layers attend within a window, as transformers 5 names the types of layers.
#pragma once

#include "model/config/config.hpp"
#include "model/families/keys/hf_config_reader.hpp"

namespace pipetrain {

inline constexpr const char* full_attention = "full_attention";
inline constexpr const char* sliding_attention = "sliding_attention";

// Throws Error(input) unless every layer that layer_types lists attends to all positions; for families without windows.
void refuse_windowed_layers(const HfConfigReader& config);
// The rule by which a family tells its windowed layers where layer_types is absent.
struct WindowRule {
  std::int64_t window = 0;       // positions; 0: no layer is windowed
  std::int64_t first_layer = 0;  // layers before it attend to all positions
  std::int64_t full_every = 0;   // above 0: in each group of this many layers, the last one does too
};
// Sets model.window and layer_types by the rule; model.layers and max_positions have been read. A window that no sequence fills
// cuts nothing off and counts as none.
void set_windows(const WindowRule& rule, ModelConfig& model);
// The same, where the key layer_types wins over the rule. Throws Error(input) naming the key.
void read_windows(const HfConfigReader& config, const WindowRule& rule, ModelConfig& model);
// Returns the window under sliding_window; 0 where it is null, `otherwise` where the key is absent.
std::int64_t read_window(const HfConfigReader& config, std::int64_t otherwise);
// Adds sliding_window.
void write_window(const ModelConfig& config, Json& text);
// Adds sliding_window and layer_types.
void write_windows(const ModelConfig& config, Json& text);

bool has_full_layers(const ModelConfig& config);
// Leaves out what says the same of every layer: types where all are the usual one, and a second rotation where all rotate
// alike.
void drop_idle_windows(ModelConfig& config);

}  // namespace pipetrain
