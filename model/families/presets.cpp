#include "model/families/presets.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "model/config/config.hpp"
#include "model/families/family.hpp"

namespace pipetrain {
namespace {

// Touvron et al. 2023, "LLaMA", table 2; with 4,096 positions "Llama 2".
ModelConfig llama2(const PresetSize& size, std::int64_t max_positions = 4096, double norm_eps = 1e-5) {
  return preset_model(Family::llama, size,
                      {.vocabulary = 32000, .max_positions = max_positions, .norm_eps = norm_eps, .bos = 1, .eos = 2});
}
ModelConfig llama1(const PresetSize& size, double norm_eps) { return llama2(size, 2048, norm_eps); }

// Grattafiori et al. 2024, "The Llama 3 Herd of Models", table 3; contexts of the first release.
ModelConfig llama3(const PresetSize& size) {
  return preset_model(Family::llama, size,
                      {.vocabulary = 128256, .max_positions = 8192, .theta = 5e5, .bos = 128000, .eos = 128001});
}

ModelConfig llama32_1b() {
  ModelConfig config = llama3({2048, 16, 32, 8, 8192});
  config.max_positions = 131072;
  config.rope.scaling = {RopeScaling::Kind::llama3, 32, 1, 4, 8192};
  config.tied_embeddings = true;
  return config;
}

// Returns a model with the sizes of the makers' config.json. max_positions: those that it was trained for, without yarn.
ModelConfig qwen(Family family, const PresetSize& size, std::int64_t vocabulary, std::int64_t max_positions) {
  const double norm_eps = family == Family::qwen2 && size.hidden >= 5120 ? 1e-5 : 1e-6;
  ModelConfig config = preset_model(family, size,
                                    {.vocabulary = vocabulary,
                                     .max_positions = max_positions,
                                     .norm_eps = norm_eps,
                                     .theta = 1e6,
                                     .bos = 151643,
                                     .eos = 151643});
  if (family == Family::qwen3) config.head_dim = 128;
  config.tied_embeddings = size.hidden <= 2560;  // up to 3B of Qwen2.5, up to 4B of Qwen3
  return config;
}

// Qwen team 2024, "Qwen2.5 Technical Report", table 1.
ModelConfig qwen25(const PresetSize& size) { return qwen(Family::qwen2, size, 151936, 32768); }
ModelConfig large_qwen25(const PresetSize& size) { return qwen(Family::qwen2, size, 152064, 131072); }

// Qwen team 2025, "Qwen3 Technical Report", table 1; those before post-training.
ModelConfig qwen3(const PresetSize& size) { return qwen(Family::qwen3, size, 151936, 32768); }

// Jiang et al. 2023, "Mistral 7B", table 1; the first version, of a window of 4,096 positions.
ModelConfig mistral_7b() {
  ModelConfig config = preset_model(Family::mistral, {4096, 32, 32, 8, 14336},
                                    {.vocabulary = 32000, .max_positions = 32768, .bos = 1, .eos = 2});
  config.window = 4096;
  config.layer_types.assign(32, {.windowed = true});
  return config;
}

// Mistral AI 2024, "Un Ministral, des Ministraux"; Hugging Face's file keeps to the 32,768 positions of its window.
ModelConfig ministral_8b() {
  return preset_model(Family::mistral, {4096, 36, 32, 8, 12288},
                      {.vocabulary = 131072, .max_positions = 32768, .theta = 1e8, .bos = 1, .eos = 2});
}

// Gemma team 2025, "Gemma 3 Technical Report", table 1, and the makers' config.json; the language models alone.
ModelConfig gemma3(const PresetSize& size, std::int64_t window, std::int64_t query_scalar = 256) {
  ModelConfig config = preset_model(
      Family::gemma3, size,
      {.vocabulary = 262208, .max_positions = 131072, .norm_eps = 1e-6, .theta = 1e6, .bos = 2, .eos = 1, .pad = 0});
  config.head_dim = query_scalar == 256 ? 256 : 128;
  config.score_scale = query_scalar == config.head_dim ? 0 : 1 / std::sqrt(static_cast<double>(query_scalar));
  config.embedding_scale = std::sqrt(static_cast<double>(size.hidden));
  config.rope.scaling = {.kind = RopeScaling::Kind::linear, .factor = 8};
  config.windowed_rope = Rope{.theta = 1e4};
  config.window = window;
  for (std::int64_t layer = 0; layer < size.layers; ++layer) config.layer_types.push_back({.windowed = (layer + 1) % 6 != 0});
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
  ModelConfig config = preset_model(Family::smollm3, {2048, 36, 16, 4, 11008},
                                    {.vocabulary = 128256,
                                     .max_positions = 65536,
                                     .norm_eps = 1e-6,
                                     .theta = 5e6,
                                     .bos = 128000,
                                     .eos = 128001,
                                     .pad = 128004});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) config.layer_types.push_back({.rotates = (layer + 1) % 4 != 0});
  return config;
}

// IBM Granite team 2025, the config.json of Granite 3.3. Scores are divided by the size of a head.
ModelConfig granite33(const PresetSize& size, double logit_divisor) {
  ModelConfig config = preset_model(Family::granite, size,
                                    {.vocabulary = 49159, .max_positions = 131072, .theta = 1e7, .bos = 0, .eos = 0, .pad = 0});
  config.tied_embeddings = true;
  config.embedding_scale = 12;
  config.residual_scale = 0.22;
  config.score_scale = 1.0 / static_cast<double>(config.head_dim);
  config.logit_divisor = logit_divisor;
  return config;
}

// OLMo team 2024, "2 OLMo 2 Furious", table 2, and the makers' config.json.
ModelConfig olmo2(const PresetSize& size) {
  return preset_model(
      Family::olmo2, size,
      {.vocabulary = 100352, .max_positions = 4096, .norm_eps = 1e-6, .theta = 5e5, .eos = 100257, .pad = 100277});
}

// Abdin et al. 2024, "Phi-4 Technical Report", and the makers' config.json.
ModelConfig phi4() {
  return preset_model(
      Family::phi3, {5120, 40, 40, 10, 17920},
      {.vocabulary = 100352, .max_positions = 16384, .theta = 2.5e5, .bos = 100257, .eos = 100265, .pad = 100349});
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
  ModelConfig config =
      preset_model(Family::phi3, {3072, 32, 24, 8, 8192},
                   {.vocabulary = 200064, .max_positions = 131072, .bos = 199999, .eos = 199999, .pad = 199999});
  config.tied_embeddings = true;
  config.rope.rotated_share = 0.75;
  config.rope.scaling = {.kind = RopeScaling::Kind::longrope, .factor = 32, .original_max_positions = 4096};
  config.rope.scaling.short_factors.assign(long_factors.size(), 1);
  config.rope.scaling.long_factors.assign(long_factors.begin(), long_factors.end());
  return config;
}

// ByteDance Seed team 2025, the config.json of Seed-OSS-36B.
ModelConfig seed_oss_36b() {
  return preset_model(
      Family::seed_oss, {5120, 64, 80, 8, 27648, 128},
      {.vocabulary = 155136, .max_positions = 524288, .norm_eps = 1e-6, .theta = 1e7, .bos = 0, .eos = 2, .pad = 1});
}

// A small model to try things out with bytes as tokens: 0.87 million parameters, 5.4 MFLOP a token. With the default settings,
// one pass over 100 KB of English (97 steps of 1,024 tokens) lowers its loss to 0.6 of the first. 1, 2, 4 or 8 devices can
// share its 8 heads, 8 key-value heads and 352 columns, and up to 8 stages its 8 blocks.
ModelConfig tiny() { return preset_model(Family::llama, {128, 4, 8, 8, 352}, {.vocabulary = 256, .max_positions = 128}); }

// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", table 2; heads of 64.
ModelConfig gpt2(std::int64_t hidden, std::int64_t layers) {
  ModelConfig config = preset_model(Family::gpt2, {hidden, layers, hidden / 64, hidden / 64, 4 * hidden},
                                    {.vocabulary = 50257, .max_positions = 1024, .bos = 50256, .eos = 50256});
  config.tied_embeddings = true;
  return config;
}

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
      {"qwen2.5-7b", large_qwen25({3584, 28, 28, 4, 18944})},
      {"qwen2.5-14b", large_qwen25({5120, 48, 40, 8, 13824})},
      {"qwen2.5-32b", large_qwen25({5120, 64, 40, 8, 27648})},
      {"qwen2.5-72b", large_qwen25({8192, 80, 64, 8, 29568})},
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

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> both = dense_presets();
    for (Preset& routed : routed_presets()) both.push_back(std::move(routed));
    return both;
  }();
  return all;
}

}  // namespace

ModelConfig preset_model(Family family, const PresetSize& size, const PresetNumbers& numbers) {
  ModelConfig config = family_config(family);
  config.hidden = size.hidden;
  config.layers = size.layers;
  config.heads = size.heads;
  config.kv_heads = size.kv_heads;
  config.head_dim = size.head_dim > 0 ? size.head_dim : size.hidden / size.heads;
  config.intermediate = size.intermediate;
  config.vocabulary = numbers.vocabulary;
  config.max_positions = numbers.max_positions;
  config.norm_eps = numbers.norm_eps;
  config.rope.theta = numbers.theta.value_or(config.rope.theta);
  config.bos_id = numbers.bos;
  if (numbers.eos) config.eos_ids = {*numbers.eos};
  config.pad_id = config.untrained_row = numbers.pad;
  return config;
}

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
