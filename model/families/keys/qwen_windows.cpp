#include "model/families/keys/qwen_windows.hpp"

#include "model/families/keys/layer_type_keys.hpp"

namespace pipetrain {

void read_qwen_windows(const HfConfigReader& config, ModelConfig& model) {
  const std::int64_t window = read_window(config, 4096);
  const bool uses_window = config.flag_or("use_sliding_window", false);
  const auto first = config.whole("max_window_layers");
  if (first && *first < 0) config.refuse_value("max_window_layers", "a whole number of at least 0");
  read_windows(config, {.window = uses_window ? window : 0, .first_layer = first.value_or(28)}, model);
}

void write_qwen_windows(const ModelConfig& config, Json& text) {
  write_windows(config, text);
  text["use_sliding_window"] = config.window > 0;
  // The layers before this number attend to everything: readers that do not know layer_types take the windows from it.
  std::int64_t first = 0;
  while (first < config.layers && config.window_of(first) == 0) ++first;
  text["max_window_layers"] = first;
}

}  // namespace pipetrain
