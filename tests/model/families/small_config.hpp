// A model small enough to compute by hand, which can be split over 1, 2 or 4 devices.
#pragma once

#include <initializer_list>

#include "model/families/family.hpp"

namespace pipetrain::test {

inline constexpr std::initializer_list<Family> every_family = {
    Family::llama,     Family::gpt2,      Family::qwen2, Family::qwen3,   Family::mistral,     Family::gemma3,
    Family::smollm3,   Family::granite,   Family::olmo2, Family::phi3,    Family::seed_oss,    Family::mixtral,
    Family::qwen2_moe, Family::qwen3_moe, Family::olmoe, Family::gpt_oss, Family::deepseek_v2, Family::deepseek_v3};

inline void add_small_experts(ModelConfig& config) {
  config.experts.count = 4;
  config.experts.chosen = 2;
  config.experts.intermediate = 16;
  config.experts.normalised =
      config.family == Family::mixtral || config.family == Family::gpt_oss || config.family == Family::deepseek_v3;
  config.router_losses = {.balance = 0.05, .z = 0.01};
  if (config.family == Family::qwen2_moe) config.experts.shared_intermediate = 8;
  if (config.latent) {
    config.kv_heads = config.heads;
    config.latent = {.query_rank = 5, .key_value_rank = 6, .plain = 3, .rotated = 4, .value = 5};
    if (config.family == Family::deepseek_v2) config.latent->query_rank = 0;
    config.head_dim = config.latent->key_columns();
    config.experts.shared_intermediate = 32;
    config.experts.dense_layers = {0};
    config.experts.scores.groups = 2;
    config.experts.scores.chosen_groups = 1;
    config.experts.scores.scale = 1.5;
    config.router_losses.z = 0;
  }
  if (config.family == Family::gpt_oss) {
    config.window = 3;
    config.layer_types = {{.windowed = true}, {.windowed = false}, {.windowed = true}};
  }
  if (config.family == Family::mixtral || config.family == Family::olmoe || config.family == Family::gpt_oss)
    config.intermediate = config.experts.intermediate;
  if (config.family == Family::qwen3_moe) config.experts.dense_layers = {1};
}

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
  if (spec_of(family).experts != nullptr) add_small_experts(config);
  if (family == Family::gemma3) {
    config.window = 3;
    config.layer_types = {{.windowed = true}, {.windowed = false}, {.windowed = true}};
    config.windowed_rope = Rope{.theta = 100};
    config.embedding_scale = 1.5;
    config.score_scale = 1.0 / 3;
  }
  if (family == Family::smollm3) {
    config.window = 3;
    config.layer_types = {{.rotates = false}, {.windowed = true}, {.windowed = true, .rotates = false}};
  }
  if (family == Family::granite) {
    config.embedding_scale = 1.5;
    config.residual_scale = 0.7;
    config.score_scale = 0.3;
    config.logit_divisor = 3;
    config.biases = {.qkv = true, .attention_out = true, .mlp = true};
  }
  if (family == Family::olmo2) config.biases = {.qkv = true, .attention_out = true};
  if (family == Family::phi3) {
    config.rope.rotated_share = 0.5;
    config.window = 3;
    config.layer_types.assign(3, {.windowed = true});
  }
  return config;
}

}  // namespace pipetrain::test
