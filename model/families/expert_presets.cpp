// The presets of models with routed experts, with the sizes of their makers' config.json.
#include <utility>

#include "model/families/family.hpp"
#include "model/families/presets.hpp"

namespace pipetrain {
namespace {

// Returns the experts of the family's defaults with these numbers.
Experts routed_experts(Family family, std::int64_t count, std::int64_t chosen, std::int64_t intermediate) {
  Experts experts = family_config(family).experts;
  experts.count = count;
  experts.chosen = chosen;
  experts.intermediate = intermediate;
  return experts;
}

ModelConfig routed_model(Family family, const PresetSize& size, const PresetNumbers& numbers, Experts experts,
                         double balance = 0) {
  ModelConfig config = preset_model(family, size, numbers);
  config.experts = std::move(experts);
  config.router_losses.balance = balance;
  return config;
}

// Jiang et al. 2024, "Mixtral of Experts", table 1.
ModelConfig mixtral_8x7b() {
  return routed_model(Family::mixtral, {4096, 32, 32, 8, 14336},
                      {.vocabulary = 32000, .max_positions = 32768, .theta = 1e6, .bos = 1, .eos = 2},
                      routed_experts(Family::mixtral, 8, 2, 14336), 0.02);
}

ModelConfig qwen_moe(Family family, const PresetSize& size, Experts experts) {
  return routed_model(
      family, size,
      {.vocabulary = 151936, .max_positions = 32768, .norm_eps = 1e-6, .theta = 1e6, .bos = 151643, .eos = 151643},
      std::move(experts), 0.001);
}

// Qwen team 2024, "Qwen2 Technical Report", table 1.
ModelConfig qwen2_57b_a14b() {
  Experts experts = {.count = 64, .chosen = 8, .intermediate = 2560, .shared_intermediate = 20480, .normalised = false};
  ModelConfig config = qwen_moe(Family::qwen2_moe, {3584, 28, 28, 4, 18944}, std::move(experts));
  config.biases.qkv = true;
  return config;
}

// Qwen team 2025, "Qwen3 Technical Report", table 2.
ModelConfig qwen3_moe(const PresetSize& size, std::int64_t expert_intermediate) {
  return qwen_moe(Family::qwen3_moe, size,
                  {.count = 128, .chosen = 8, .intermediate = expert_intermediate, .normalised = true});
}

// Muennighoff et al. 2024, "OLMoE: Open Mixture-of-Experts Language Models", table 10.
ModelConfig olmoe_1b_7b() {
  return routed_model(Family::olmoe, {2048, 16, 16, 16, 1024},
                      {.vocabulary = 50304, .max_positions = 4096, .eos = 50279, .pad = 1},
                      {.count = 64, .chosen = 8, .intermediate = 1024, .normalised = false}, 0.01);
}

// OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", table 1. The two sizes differ in nothing but layers and experts.
ModelConfig gpt_oss(std::int64_t layers, std::int64_t experts) {
  ModelConfig config =
      routed_model(Family::gpt_oss, {2880, layers, 64, 8, 2880, 64},
                   {.vocabulary = 201088, .max_positions = 131072, .bos = 199998, .eos = 200002, .pad = 199999},
                   routed_experts(Family::gpt_oss, experts, 4, 2880), 0.9);
  config.window = 128;
  for (std::int64_t layer = 0; layer < layers; ++layer) config.layer_types.push_back({.windowed = layer % 2 == 0});
  return config;
}

ModelConfig deepseek(ModelConfig config, std::int64_t query_rank, double mscale) {
  config.latent = {.query_rank = query_rank, .key_value_rank = 512, .plain = 128, .rotated = 64, .value = 128};
  config.rope.scaling = {.kind = RopeScaling::Kind::yarn,
                         .factor = 40,
                         .original_max_positions = 4096,
                         .mscale = mscale,
                         .mscale_all_dim = mscale};
  return config;
}

// DeepSeek-AI 2024, "DeepSeek-V2", appendix B.
ModelConfig deepseek_v2_lite() {
  Experts experts = routed_experts(Family::deepseek_v2, 64, 6, 1408);
  experts.shared_intermediate = 2 * 1408;
  experts.dense_layers = {0};
  return deepseek(
      routed_model(Family::deepseek_v2, {2048, 27, 16, 16, 10944, 192},
                   {.vocabulary = 102400, .max_positions = 163840, .norm_eps = 1e-6, .bos = 100000, .eos = 100001}, experts),
      0, 0.707);
}

// DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 4.2.
ModelConfig deepseek_v3() {
  Experts experts = routed_experts(Family::deepseek_v3, 256, 8, 2048);
  experts.shared_intermediate = 2048;
  experts.dense_layers = {0, 1, 2};
  experts.scores.groups = 8;
  experts.scores.chosen_groups = 4;
  ModelConfig config =
      deepseek(routed_model(Family::deepseek_v3, {7168, 61, 128, 128, 18432, 192},
                            {.vocabulary = 129280, .max_positions = 163840, .norm_eps = 1e-6, .bos = 0, .eos = 1}, experts),
               1536, 1);
  config.mtp.layers = 1;
  return config;
}

}  // namespace

std::vector<Preset> routed_presets() {
  return {{"mixtral-8x7b", mixtral_8x7b()},
          {"qwen2-57b-a14b", qwen2_57b_a14b()},
          {"qwen3-30b-a3b", qwen3_moe({2048, 48, 32, 4, 6144, 128}, 768)},
          {"qwen3-235b-a22b", qwen3_moe({4096, 94, 64, 4, 12288, 128}, 1536)},
          {"olmoe-1b-7b", olmoe_1b_7b()},
          {"gpt-oss-20b", gpt_oss(24, 32)},
          {"gpt-oss-120b", gpt_oss(36, 128)},
          {"deepseek-v2-lite", deepseek_v2_lite()},
          {"deepseek-v3", deepseek_v3()}};
}

}  // namespace pipetrain
