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

// layers, experts: the two sizes differ in nothing else.
ModelConfig gpt_oss(std::int64_t layers, std::int64_t experts) {
  RoutedSize size{2880, layers, 64, 8, 64, 2880, family_config(Family::gpt_oss).experts};
  size.experts.count = experts;
  size.experts.chosen = 4;
  size.experts.intermediate = 2880;
  ModelConfig config = routed_model(Family::gpt_oss, size);
  config.vocabulary = 201088;
  config.max_positions = 131072;
  config.norm_eps = 1e-5;
  config.window = 128;
  for (std::int64_t layer = 0; layer < layers; ++layer) config.layer_types.push_back({.windowed = layer % 2 == 0});
  config.router_losses.balance = 0.9;
  config.bos_id = 199998;
  config.eos_ids = {200002};
  config.pad_id = config.untrained_row = 199999;
  return config;
}

ModelConfig deepseek(Family family, const RoutedSize& size, std::int64_t query_rank, double mscale) {
  ModelConfig config = routed_model(family, size);
  config.latent = {.query_rank = query_rank, .key_value_rank = 512, .plain = 128, .rotated = 64, .value = 128};
  config.max_positions = 163840;
  config.norm_eps = 1e-6;
  config.rope.scaling = {.kind = RopeScaling::Kind::yarn,
                         .factor = 40,
                         .original_max_positions = 4096,
                         .mscale = mscale,
                         .mscale_all_dim = mscale};
  return config;
}

}  // namespace

ModelConfig deepseek_v2_lite() {
  RoutedSize size{2048, 27, 16, 16, 192, 10944, family_config(Family::deepseek_v2).experts};
  size.experts.count = 64;
  size.experts.chosen = 6;
  size.experts.intermediate = 1408;
  size.experts.shared_intermediate = 2 * 1408;
  size.experts.dense_layers = {0};
  ModelConfig config = deepseek(Family::deepseek_v2, size, 0, 0.707);
  config.vocabulary = 102400;
  config.bos_id = 100000;
  config.eos_ids = {100001};
  return config;
}

ModelConfig deepseek_v3() {
  RoutedSize size{7168, 61, 128, 128, 192, 18432, family_config(Family::deepseek_v3).experts};
  size.experts.count = 256;
  size.experts.chosen = 8;
  size.experts.intermediate = size.experts.shared_intermediate = 2048;
  size.experts.dense_layers = {0, 1, 2};
  size.experts.scores.groups = 8;
  size.experts.scores.chosen_groups = 4;
  ModelConfig config = deepseek(Family::deepseek_v3, size, 1536, 1);
  config.mtp.layers = 1;
  config.vocabulary = 129280;
  config.bos_id = 0;
  config.eos_ids = {1};
  return config;
}

ModelConfig gpt_oss_20b() { return gpt_oss(24, 32); }
ModelConfig gpt_oss_120b() { return gpt_oss(36, 128); }

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
