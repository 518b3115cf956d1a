#include "model/families/expert_presets.hpp"

#include "model/families/family.hpp"

namespace pipetrain {
namespace {

struct RoutedSize {
  std::int64_t hidden, layers, heads, kv_heads, head_dim, intermediate;
  Experts experts;
};

ModelConfig routed_model(Family family, const RoutedSize& size) {
  ModelConfig config = family_config(family);
  config.hidden = size.hidden;
  config.layers = size.layers;
  config.heads = size.heads;
  config.kv_heads = size.kv_heads;
  config.head_dim = size.head_dim;
  config.intermediate = size.intermediate;
  config.experts = size.experts;
  return config;
}

ModelConfig qwen_moe(Family family, const RoutedSize& size) {
  ModelConfig config = routed_model(family, size);
  config.vocabulary = 151936;
  config.max_positions = 32768;
  config.norm_eps = 1e-6;
  config.rope.theta = 1e6;
  config.router_losses.balance = 0.001;
  config.bos_id = 151643;
  config.eos_ids = {151643};
  return config;
}

}  // namespace

ModelConfig mixtral_8x7b() {
  ModelConfig config = routed_model(
      Family::mixtral, {4096, 32, 32, 8, 128, 14336, {.count = 8, .chosen = 2, .intermediate = 14336, .normalised = true}});
  config.vocabulary = 32000;
  config.max_positions = 32768;
  config.norm_eps = 1e-5;
  config.rope.theta = 1e6;
  config.router_losses.balance = 0.02;
  config.bos_id = 1;
  config.eos_ids = {2};
  return config;
}

ModelConfig qwen2_57b_a14b() {
  ModelConfig config = qwen_moe(
      Family::qwen2_moe, {3584,
                          28,
                          28,
                          4,
                          128,
                          18944,
                          {.count = 64, .chosen = 8, .intermediate = 2560, .shared_intermediate = 20480, .normalised = false}});
  config.biases.qkv = true;
  return config;
}

ModelConfig qwen3_30b_a3b() {
  return qwen_moe(Family::qwen3_moe,
                  {2048, 48, 32, 4, 128, 6144, {.count = 128, .chosen = 8, .intermediate = 768, .normalised = true}});
}

ModelConfig qwen3_235b_a22b() {
  return qwen_moe(Family::qwen3_moe,
                  {4096, 94, 64, 4, 128, 12288, {.count = 128, .chosen = 8, .intermediate = 1536, .normalised = true}});
}

ModelConfig olmoe_1b_7b() {
  ModelConfig config = routed_model(
      Family::olmoe, {2048, 16, 16, 16, 128, 1024, {.count = 64, .chosen = 8, .intermediate = 1024, .normalised = false}});
  config.vocabulary = 50304;
  config.max_positions = 4096;
  config.norm_eps = 1e-5;
  config.rope.theta = 1e4;
  config.router_losses.balance = 0.01;
  config.eos_ids = {50279};
  config.pad_id = config.untrained_row = 1;
  return config;
}

}  // namespace pipetrain
