// Keys of config.json that change what a model computes and that no family here has built.
#pragma once

#include "model/config/config.hpp"
#include "model/families/hf_config_reader.hpp"

namespace pipetrain {

// Throws Error(input) naming the key where one of them asks for what is not built; a value that means "off" passes, and so
// does a key that the family's reader has asked for. Some are
// keys that transformers reads for every family (is_causal, per_layer_config, pruned_heads), the others come with models whose
// model_type names a family that they do not quite belong to. `model`: its sizes have been read.
void refuse_unbuilt_keys(const HfConfigReader& config, const ModelConfig& model);

}  // namespace pipetrain
