// What the models of a family have in common.
#pragma once

#include "model/config.hpp"

namespace pipetrain {

// A configuration with what its family decides; sizes are still to be given.
inline ModelConfig family_config(Family family) {
  ModelConfig config;
  config.family = family;
  if (family == Family::gpt2) {
    config.norm = NormKind::layer;
    config.positions = PositionKind::learned;
    config.activation = Activation::gelu;
    config.biases = true;
  }
  return config;
}

// What Hugging Face calls a family's tensors, where code outside of the blocks must know it.
struct FamilyNames {
  const char* embedding;        // the table of token embeddings
  const char* head;             // the output matrix, where it is not tied
  const char* layers;           // what the names of layer N's tensors begin with, before the N
  const char* optional_prefix;  // that files of the bare model, saved without its head, leave out; "" if there is none
};

inline FamilyNames names_of(Family family) {
  switch (family) {
    case Family::gpt2:
      return {"transformer.wte.weight", "lm_head.weight", "transformer.h.", "transformer."};
    case Family::llama:
      break;
  }
  return {"model.embed_tokens.weight", "lm_head.weight", "model.layers.", ""};
}

}  // namespace pipetrain
