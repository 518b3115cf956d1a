#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "model/config/config.hpp"
#include "model/families/expert_presets.hpp"
#include "model/families/family.hpp"

namespace pipetrain {
namespace {

struct Size {
  std::int64_t hidden, layers, heads, kv_heads, intermediate;
};

ModelConfig sized(Family family, const Size& size) {
  ModelConfig config = family_config(family);
  config.hidden = size.hidden;
  config.layers = size.layers;
  config.heads = size.heads;
  config.kv_heads = size.kv_heads;
  config.head_dim = size.hidden / size.heads;
  config.intermediate = size.intermediate;
  return config;
}

ModelConfig llama(const Size& size) { return sized(Family::llama, size); }

// Touvron et al. 2023, "LLaMA", table 2.
ModelConfig llama1(const Size& size, double norm_eps) {
  ModelConfig config = llama(size);
  config.vocabulary = 32000;
  config.max_positions = 2048;
  config.norm_eps = norm_eps;
  config.bos_id = 1;
  config.eos_ids = {2};
  return config;
}

// Touvron et al. 2023, "Llama 2".
ModelConfig llama2(const Size& size) {
  ModelConfig config = llama1(size, 1e-5);
  config.max_positions = 4096;
  return config;
}

// Grattafiori et al. 2024, "The Llama 3 Herd of Models", table 3; contexts of the first release.
ModelConfig llama3(const Size& size) {
  ModelConfig config = llama(size);
  config.vocabulary = 128256;
  config.max_positions = 8192;
  config.rope.theta = 5e5;
  config.bos_id = 128000;
  config.eos_ids = {128001};
  return config;
}

ModelConfig llama32_1b() {
  ModelConfig config = llama3({2048, 16, 32, 8, 8192});
  config.max_positions = 131072;
  config.rope.scaling = {RopeScaling::Kind::llama3, 32, 1, 4, 8192};
  config.tied_embeddings = true;
  return config;
}

// Returns a model with the sizes of the makers' config.json. max_positions: those that it was trained for, without yarn.
ModelConfig qwen(Family family, const Size& size, std::int64_t vocabulary, std::int64_t max_positions) {
  ModelConfig config = sized(family, size);
  if (family == Family::qwen3) config.head_dim = 128;
  config.vocabulary = vocabulary;
  config.max_positions = max_positions;
  config.norm_eps = 1e-6;
  config.rope.theta = 1e6;
  config.tied_embeddings = size.hidden <= 2560;  // up to 3B of Qwen2.5, up to 4B of Qwen3
  config.bos_id = 151643;
  config.eos_ids = {151643};
  return config;
}

// Qwen team 2024, "Qwen2.5 Technical Report", table 1.
ModelConfig qwen25(const Size& size, std::int64_t vocabulary = 151936) {
  const bool is_large = vocabulary != 151936;
  ModelConfig config = qwen(Family::qwen2, size, vocabulary, is_large ? 131072 : 32768);
  if (size.hidden >= 5120) config.norm_eps = 1e-5;
  return config;
}

// Qwen team 2025, "Qwen3 Technical Report", table 1; those before post-training.
ModelConfig qwen3(const Size& size) { return qwen(Family::qwen3, size, 151936, 32768); }

ModelConfig mistral(const Size& size) {
  ModelConfig config = sized(Family::mistral, size);
  config.max_positions = 32768;
  config.bos_id = 1;
  config.eos_ids = {2};
  return config;
}

// Jiang et al. 2023, "Mistral 7B", table 1; the first version, of a window of 4,096 positions.
ModelConfig mistral_7b() {
  ModelConfig config = mistral({4096, 32, 32, 8, 14336});
  config.vocabulary = 32000;
  config.window = 4096;
  config.layer_types.assign(32, {.windowed = true});
  return config;
}

// Mistral AI 2024, "Un Ministral, des Ministraux"; Hugging Face's file keeps to the 32,768 positions of its window.
ModelConfig ministral_8b() {
  ModelConfig config = mistral({4096, 36, 32, 8, 12288});
  config.vocabulary = 131072;
  config.rope.theta = 1e8;
  return config;
}

// Gemma team 2025, "Gemma 3 Technical Report", table 1, and the makers' config.json; the language models alone.
ModelConfig gemma3(const Size& size, std::int64_t window, std::int64_t query_scalar = 256) {
  ModelConfig config = sized(Family::gemma3, size);
  config.head_dim = query_scalar == 256 ? 256 : 128;
  config.score_scale = query_scalar == config.head_dim ? 0 : 1 / std::sqrt(static_cast<double>(query_scalar));
  config.vocabulary = 262208;
  config.max_positions = 131072;
  config.norm_eps = 1e-6;
  config.embedding_scale = std::sqrt(static_cast<double>(size.hidden));
  config.rope.theta = 1e6;
  config.rope.scaling = {.kind = RopeScaling::Kind::linear, .factor = 8};
  config.windowed_rope = Rope{.theta = 1e4};
  config.window = window;
  for (std::int64_t layer = 0; layer < size.layers; ++layer) config.layer_types.push_back({.windowed = (layer + 1) % 6 != 0});
  config.bos_id = 2;
  config.eos_ids = {1};
  config.pad_id = config.untrained_row = 0;
  return config;
}

ModelConfig gemma3_1b() {
  ModelConfig config = gemma3({1152, 26, 4, 1, 6912}, 512);
  config.vocabulary = 262144;
  config.max_positions = 32768;
  config.rope.scaling = {};
  return config;
}

// Hugging Face 2025, "SmolLM3: smol, multilingual, long-context reasoner", and the makers' config.json.
ModelConfig smollm3_3b() {
  ModelConfig config = sized(Family::smollm3, {2048, 36, 16, 4, 11008});
  config.vocabulary = 128256;
  config.max_positions = 65536;
  config.norm_eps = 1e-6;
  config.rope.theta = 5e6;
  config.tied_embeddings = true;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) config.layer_types.push_back({.rotates = (layer + 1) % 4 != 0});
  config.bos_id = 128000;
  config.eos_ids = {128001};
  config.pad_id = config.untrained_row = 128004;
  return config;
}

// IBM Granite team 2025, the config.json of Granite 3.3. Scores are divided by the size of a head.
ModelConfig granite33(const Size& size, double logit_divisor) {
  ModelConfig config = sized(Family::granite, size);
  config.vocabulary = 49159;
  config.max_positions = 131072;
  config.rope.theta = 1e7;
  config.tied_embeddings = true;
  config.embedding_scale = 12;
  config.residual_scale = 0.22;
  config.score_scale = 1.0 / static_cast<double>(config.head_dim);
  config.logit_divisor = logit_divisor;
  config.bos_id = config.pad_id = config.untrained_row = 0;
  config.eos_ids = {0};
  return config;
}

// OLMo team 2024, "2 OLMo 2 Furious", table 2, and the makers' config.json.
ModelConfig olmo2(const Size& size) {
  ModelConfig config = sized(Family::olmo2, size);
  config.vocabulary = 100352;
  config.max_positions = 4096;
  config.norm_eps = 1e-6;
  config.rope.theta = 5e5;
  config.eos_ids = {100257};
  config.pad_id = config.untrained_row = 100277;
  return config;
}

// Abdin et al. 2024, "Phi-4 Technical Report", and the makers' config.json.
ModelConfig phi4() {
  ModelConfig config = sized(Family::phi3, {5120, 40, 40, 10, 17920});
  config.vocabulary = 100352;
  config.max_positions = 16384;
  config.rope.theta = 2.5e5;
  config.bos_id = 100257;
  config.eos_ids = {100265};
  config.pad_id = config.untrained_row = 100349;
  return config;
}

// Microsoft 2025, "Phi-4-Mini Technical Report", and the makers' config.json.
ModelConfig phi4_mini() {
  constexpr std::array long_factors{1.0,         1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897,  1.956131817,
                                    2.187582649, 2.446418898, 2.735880826, 3.059592084, 3.421605075, 3.826451687, 4.279200023,
                                    4.785517845, 5.351743533, 5.984965424, 6.693110555, 7.485043894, 8.370679318, 9.36110372,
                                    10.4687158,  11.70738129, 13.09260651, 14.64173252, 16.37415215, 18.31155283, 20.47818807,
                                    22.90118105, 25.61086418, 28.64115884, 32.03,       32.1,        32.13,       32.23,
                                    32.6,        32.61,       32.64,       32.66,       32.7,        32.71,       32.93,
                                    32.97,       33.28,       33.49,       33.5,        44.16,       47.77};
  ModelConfig config = sized(Family::phi3, {3072, 32, 24, 8, 8192});
  config.vocabulary = 200064;
  config.max_positions = 131072;
  config.tied_embeddings = true;
  config.rope.rotated_share = 0.75;
  config.rope.scaling = {.kind = RopeScaling::Kind::longrope, .factor = 32, .original_max_positions = 4096};
  config.rope.scaling.short_factors.assign(long_factors.size(), 1);
  config.rope.scaling.long_factors.assign(long_factors.begin(), long_factors.end());
  config.bos_id = config.pad_id = config.untrained_row = 199999;
  config.eos_ids = {199999};
  return config;
}

// ByteDance Seed team 2025, the config.json of Seed-OSS-36B.
ModelConfig seed_oss_36b() {
  ModelConfig config = sized(Family::seed_oss, {5120, 64, 80, 8, 27648});
  config.head_dim = 128;
  config.vocabulary = 155136;
  config.max_positions = 524288;
  config.norm_eps = 1e-6;
  config.rope.theta = 1e7;
  config.biases.qkv = true;
  config.bos_id = 0;
  config.eos_ids = {2};
  config.pad_id = config.untrained_row = 1;
  return config;
}

// A small model to try things out with bytes as tokens: 0.87 million parameters, 5.4 MFLOP a token. With the default settings,
// one pass over 100 KB of English (97 steps of 1,024 tokens) lowers its loss to 0.6 of the first. 1, 2, 4 or 8 devices can
// share its 8 heads, 8 key-value heads and 352 columns, and up to 8 stages its 8 blocks.
ModelConfig tiny() {
  ModelConfig config = llama({128, 4, 8, 8, 352});
  config.vocabulary = 256;
  config.max_positions = 128;
  return config;
}

// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", table 2; heads of 64.
ModelConfig gpt2(std::int64_t hidden, std::int64_t layers) {
  ModelConfig config = family_config(Family::gpt2);
  config.hidden = hidden;
  config.layers = layers;
  config.head_dim = 64;
  config.heads = config.kv_heads = hidden / config.head_dim;
  config.intermediate = 4 * hidden;
  config.vocabulary = 50257;
  config.max_positions = 1024;
  config.tied_embeddings = true;
  config.bos_id = 50256;
  config.eos_ids = {50256};
  return config;
}

struct Preset {
  const char* name;
  ModelConfig config;
};

std::vector<Preset> dense_presets() {
  return {
      {"tiny", tiny()},
      {"gpt2", gpt2(768, 12)},
      {"gpt2-medium", gpt2(1024, 24)},
      {"gpt2-large", gpt2(1280, 36)},
      {"gpt2-xl", gpt2(1600, 48)},
      {"llama-7b", llama1({4096, 32, 32, 32, 11008}, 1e-6)},
      {"llama-13b", llama1({5120, 40, 40, 40, 13824}, 1e-6)},
      {"llama-30b", llama1({6656, 60, 52, 52, 17920}, 1e-6)},
      {"llama-65b", llama1({8192, 80, 64, 64, 22016}, 1e-5)},
      {"llama2-7b", llama2({4096, 32, 32, 32, 11008})},
      {"llama2-13b", llama2({5120, 40, 40, 40, 13824})},
      {"llama2-70b", llama2({8192, 80, 64, 8, 28672})},
      {"llama3-8b", llama3({4096, 32, 32, 8, 14336})},
      {"llama3-70b", llama3({8192, 80, 64, 8, 28672})},
      {"llama3.2-1b", llama32_1b()},
      {"qwen2.5-0.5b", qwen25({896, 24, 14, 2, 4864})},
      {"qwen2.5-1.5b", qwen25({1536, 28, 12, 2, 8960})},
      {"qwen2.5-3b", qwen25({2048, 36, 16, 2, 11008})},
      {"qwen2.5-7b", qwen25({3584, 28, 28, 4, 18944}, 152064)},
      {"qwen2.5-14b", qwen25({5120, 48, 40, 8, 13824}, 152064)},
      {"qwen2.5-32b", qwen25({5120, 64, 40, 8, 27648}, 152064)},
      {"qwen2.5-72b", qwen25({8192, 80, 64, 8, 29568}, 152064)},
      {"qwen3-0.6b", qwen3({1024, 28, 16, 8, 3072})},
      {"qwen3-1.7b", qwen3({2048, 28, 16, 8, 6144})},
      {"qwen3-4b", qwen3({2560, 36, 32, 8, 9728})},
      {"qwen3-8b", qwen3({4096, 36, 32, 8, 12288})},
      {"qwen3-14b", qwen3({5120, 40, 40, 8, 17408})},
      {"qwen3-32b", qwen3({5120, 64, 64, 8, 25600})},
      {"mistral-7b", mistral_7b()},
      {"ministral-8b", ministral_8b()},
      {"gemma3-1b", gemma3_1b()},
      {"gemma3-4b", gemma3({2560, 34, 8, 4, 10240}, 1024)},
      {"gemma3-12b", gemma3({3840, 48, 16, 8, 15360}, 1024)},
      {"gemma3-27b", gemma3({5376, 62, 32, 16, 21504}, 1024, 168)},
      {"smollm3-3b", smollm3_3b()},
      {"granite-3.3-2b", granite33({2048, 40, 32, 8, 8192}, 8)},
      {"granite-3.3-8b", granite33({4096, 40, 32, 8, 12800}, 16)},
      {"olmo2-7b", olmo2({4096, 32, 32, 32, 11008})},
      {"olmo2-13b", olmo2({5120, 40, 40, 40, 13824})},
      {"phi-4", phi4()},
      {"phi-4-mini", phi4_mini()},
      {"seed-oss-36b", seed_oss_36b()},
  };
}

std::vector<Preset> routed_presets() {
  return {
      {"mixtral-8x7b", mixtral_8x7b()},       {"qwen2-57b-a14b", qwen2_57b_a14b()},     {"qwen3-30b-a3b", qwen3_30b_a3b()},
      {"qwen3-235b-a22b", qwen3_235b_a22b()}, {"olmoe-1b-7b", olmoe_1b_7b()},           {"gpt-oss-20b", gpt_oss_20b()},
      {"gpt-oss-120b", gpt_oss_120b()},       {"deepseek-v2-lite", deepseek_v2_lite()}, {"deepseek-v3", deepseek_v3()},
  };
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> both = dense_presets();
    for (Preset& routed : routed_presets()) both.push_back(std::move(routed));
    return both;
  }();
  return all;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

ModelConfig preset_config(const std::string& name) {
  for (const Preset& preset : presets()) {
    if (name == preset.name) return preset.config;
  }
  const auto nearest = nearest_name(name, preset_names());
  throw Error(ErrorKind::input, {"model", name},
              fmt::format("no such preset and no folder with a config.json;{} presets: {}",
                          nearest ? fmt::format(" did you mean {}?", *nearest) : "", fmt::join(preset_names(), ", ")));
}

}  // namespace pipetrain
