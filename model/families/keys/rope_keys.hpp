// The keys of config.json that say how queries and keys rotate.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config/config.hpp"
#include "model/families/keys/hf_config_reader.hpp"

namespace pipetrain {

// The differences between a family's keys of rotation and the usual ones.
struct RopeRules {
  bool only_longrope = false;  // there is no other scaling, and "su" and "yarn" are older names of it
  // The original positions if config.json has no original_max_position_embeddings besides the one in the settings of rotation,
  // which must then be equal to it. Empty: those of the settings, or else the model's positions.
  std::optional<std::int64_t> original_positions = {};
};
// Reads the keys in the forms of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters, also with one object for
// each type of layer). The model's sizes, its window and its types of layers must have been read before. Throws Error(input)
// naming the key for a type of scaling that is not built, for a key that no type has, and for two keys that contradict each
// other.
void read_rope(const HfConfigReader& config, ModelConfig& model, const RopeRules& rules = {});
// True when rope_parameters has one object for each type of layer.
bool has_rope_by_type(const HfConfigReader& config);
// Writes both forms.
void write_rope(const ModelConfig& config, Json& text);

}  // namespace pipetrain
