// A model small enough to compute by hand, which can be split over 1, 2 or 4 devices.
#pragma once

#include "model/families/family.hpp"

namespace pipetrain::test {

inline ModelConfig small_config(bool tied = false, Family family = Family::llama) {
  ModelConfig config = family_config(family);
  config.hidden = 32;
  config.layers = 3;
  config.heads = 8;
  config.kv_heads = 4;
  config.head_dim = 4;
  config.intermediate = 24;
  config.vocabulary = 37;  // no tp but 1 divides it
  config.max_positions = 64;
  config.tied_embeddings = tied;
  if (family == Family::gpt2) {
    config.kv_heads = config.heads;
    config.max_positions = 7;
  }
  if (family == Family::mistral) {
    config.window = 3;
    config.layer_types = {{.windowed = true}, {.windowed = false}, {.windowed = true}};
  }
  if (family == Family::mixtral || family == Family::qwen3_moe || family == Family::qwen2_moe) {
    config.experts = {.count = 4, .chosen = 2, .intermediate = 16, .normalised = family == Family::mixtral};
    config.router_losses = {.balance = 0.05, .z = 0.01};
  }
  if (family == Family::qwen2_moe) config.experts.shared_intermediate = 8;
  if (family == Family::mixtral) config.intermediate = config.experts.intermediate;
  if (family == Family::qwen3_moe) config.experts.dense_layers = {1};
  if (family == Family::gemma3) {
    config.window = 3;
    config.layer_types = {{.windowed = true}, {.windowed = false}, {.windowed = true}};
    config.windowed_rope = Rope{.theta = 100};
    config.embedding_scale = 1.5;
    config.query_scalar = 9;
  }
  return config;
}

}  // namespace pipetrain::test
