// A model whose tensors span several norm blocks and offloaded blocks, some of them incomplete at the end.
#pragma once

#include "model/config/config.hpp"

namespace pipetrain::test {

inline ModelConfig several_blocks_config(bool tied = false) {
  ModelConfig config;
  config.hidden = 128;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.intermediate = 1036;
  config.vocabulary = 1031;
  config.max_positions = 32;
  config.init_std = 0.05;
  config.tied_embeddings = tied;
  return config;
}

}  // namespace pipetrain::test
