// The keys of config.json that say how queries and keys rotate.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config/config.hpp"
#include "model/families/hf_config_reader.hpp"

namespace pipetrain {

// How a family's keys differ from those of the others.
struct RopeRules {
  bool only_longrope = false;  // there is no other scaling, and "su" and "yarn" are older names of it
  // Where original_max_position_embeddings is absent outside the settings, which then must not have another one. Empty: that of
  // the settings holds, or the model's positions.
  std::optional<std::int64_t> original_positions = {};
};
// Reads them in the forms of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters, also with one object for each
// type of layer). Where layers are windowed, model.window and layer_types have been read, as the sizes have been. Throws
// Error(input) naming the key: for a type of scaling that is not built, for a key that none has, and where two keys differ.
void read_rope(const HfConfigReader& config, ModelConfig& model, const RopeRules& rules = {});
// True when rope_parameters has one object for each type of layer.
bool has_rope_by_type(const HfConfigReader& config);
// Writes both forms.
void write_rope(const ModelConfig& config, Json& text);

}  // namespace pipetrain
