// What Hugging Face calls a family's tensors, where code outside of the blocks must know it.
#pragma once

#include "model/config.hpp"

namespace pipetrain {

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
