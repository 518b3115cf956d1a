#include "model/families/layer_type_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pipetrain {
namespace {

bool has_windowed_layers(const ModelConfig& config) {
  return std::any_of(config.layer_types.begin(), config.layer_types.end(), [](const LayerType& type) { return type.windowed; });
}

}  // namespace

void refuse_windowed_layers(const HfConfigReader& config) {
  if (!config.has("layer_types")) return;
  const Json& types = config.value("layer_types");
  const auto is_full = [](const Json& type) { return type == full_attention; };
  if (!types.is_array() || !std::all_of(types.begin(), types.end(), is_full))
    config.refuse_value("layer_types", fmt::format("a list of \"{}\" only (other layers are not built)", full_attention));
}

std::int64_t read_window(const HfConfigReader& config, std::int64_t otherwise) {
  if (!config.mentions("sliding_window")) return otherwise;
  return config.has("sliding_window") ? config.count("sliding_window") : 0;
}

void set_windows(const WindowRule& rule, ModelConfig& model) {
  model.window = rule.window;
  model.layer_types.clear();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool is_full = layer < rule.first_layer || (rule.full_every > 0 && (layer + 1) % rule.full_every == 0);
    model.layer_types.push_back({.windowed = !is_full});
  }
  if (rule.window == 0 || rule.window >= model.max_positions) model.layer_types.clear();
  drop_idle_windows(model);
}

void read_windows(const HfConfigReader& config, const WindowRule& rule, ModelConfig& model) {
  if (!config.has("layer_types")) return set_windows(rule, model);
  const Json& types = config.value("layer_types");
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != model.layers)
    config.refuse_value("layer_types", fmt::format("a list of the types of the {} layers", model.layers));
  for (const Json& type : types) {
    if (type != full_attention && type != sliding_attention)
      config.refuse_value("layer_types", fmt::format("a list of \"{}\" and \"{}\" (other layers are not built)", full_attention,
                                                     sliding_attention));
    model.layer_types.push_back({.windowed = type == sliding_attention});
  }
  model.window = rule.window;
  if (rule.window == 0 && has_windowed_layers(model))
    config.refuse("layer_types has layers within a window, and no key says of how many positions; add sliding_window");
  if (rule.window >= model.max_positions) model.layer_types.clear();
  drop_idle_windows(model);
}

void write_window(const ModelConfig& config, Json& text) {
  text["sliding_window"] = config.window > 0 ? Json(config.window) : Json(nullptr);
}

void write_windows(const ModelConfig& config, Json& text) {
  write_window(config, text);
  Json types = Json::array({});
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    types.push_back(config.window_of(layer) > 0 ? sliding_attention : full_attention);
  text["layer_types"] = std::move(types);
}

bool has_full_layers(const ModelConfig& config) {
  return config.layer_types.empty() || std::any_of(config.layer_types.begin(), config.layer_types.end(),
                                                   [](const LayerType& type) { return !type.windowed; });
}

void drop_idle_windows(ModelConfig& config) {
  if (!has_full_layers(config) && config.windowed_rope) config.rope = *std::exchange(config.windowed_rope, std::nullopt);
  if (has_windowed_layers(config)) return;
  config.window = 0;
  config.windowed_rope.reset();
  const auto is_usual = [](const LayerType& type) { return type == LayerType{}; };
  if (std::all_of(config.layer_types.begin(), config.layer_types.end(), is_usual)) config.layer_types.clear();
}

}  // namespace pipetrain
