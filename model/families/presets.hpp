// The parts of presets. preset_config() (model/config/config.hpp) finds a preset by its name.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

struct Preset {
  const char* name;
  ModelConfig config;
};

struct PresetSize {
  std::int64_t hidden, layers, heads, kv_heads, intermediate;
  std::int64_t head_dim = 0;  // 0: hidden / heads
};

struct PresetNumbers {
  std::int64_t vocabulary, max_positions;
  double norm_eps = 1e-5;
  std::optional<double> theta = {};  // no value: that of the family's defaults
  std::optional<std::int64_t> bos = {}, eos = {}, pad = {};
};

// Returns a model with the family's defaults, these sizes and these numbers.
ModelConfig preset_model(Family family, const PresetSize& size, const PresetNumbers& numbers);

// Returns the presets with routed experts.
std::vector<Preset> routed_presets();

}  // namespace pipetrain
