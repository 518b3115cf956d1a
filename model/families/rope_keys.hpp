// The keys of config.json that say how queries and keys rotate.
#pragma once

#include "model/config/config.hpp"
#include "model/families/hf_config_reader.hpp"

namespace pipetrain {

// Reads them in the forms of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters, also with one object for each
// type of layer). Where layers are windowed, model.window and layer_types have been read, as the sizes have been. Throws
// Error(input) naming the key: for a type of scaling that is not built, for a key that none has, and where two keys differ.
void read_rope(const HfConfigReader& config, ModelConfig& model);
// Writes both forms.
void write_rope(const ModelConfig& config, Json& text);

}  // namespace pipetrain
