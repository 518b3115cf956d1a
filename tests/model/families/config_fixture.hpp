// Configurations as files, and their errors.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "model/config/config.hpp"
#include "model/error_text.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain {

inline ModelConfig parse_config(const TempFolder& folder, const std::string& text) {
  folder.write("config.json", text);
  return read_hf_config(folder.path());
}
inline ModelConfig parse_config(const nlohmann::json& config) { return parse_config(TempFolder(), config.dump()); }

// Returns the error of this configuration, without the file's name; empty if there is none.
inline std::string config_error(const nlohmann::json& config) {
  const TempFolder folder;
  const std::string text = input_error([&] { parse_config(folder, config.dump()); });
  const std::string file = (folder.path() / "config.json").string() + ": ";
  if (text.empty()) return "";
  REQUIRE(text.starts_with(file));
  return text.substr(file.size());
}

// Returns the config.json of a folder of tests/golden.
inline nlohmann::json golden_config(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(test_data() + "/golden/" + name + "/config.json"));
}

inline ModelConfig round_trip(const ModelConfig& config) { return parse_config(TempFolder(), hf_config_text(config)); }

// By layer: true where attention has a window.
inline std::vector<bool> windowed(const ModelConfig& config) {
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) layers.push_back(config.window_of(layer) > 0);
  return layers;
}

// By layer: true where queries and keys rotate.
inline std::vector<bool> rotating(const ModelConfig& config) {
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) layers.push_back(config.rotates(layer));
  return layers;
}

// Returns the configuration's error with this key set; "remove" removes it.
inline std::string config_error(nlohmann::json config, const std::string& key, const nlohmann::json& value) {
  config[key] = value;
  if (value == "remove") config.erase(key);
  return config_error(config);
}

}  // namespace pipetrain
