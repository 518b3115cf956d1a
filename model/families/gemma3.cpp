// Gemma 3, its language model: norms of 1 + w before and after attention and MLP and over the heads of queries and keys, a GELU
// as the gate, scaled embeddings, and five layers within a window for each that attends to all positions. The larger models are
// published with a vision tower, as multimodal models.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

constexpr double usual_theta = 1e6, usual_local_theta = 1e4;
constexpr std::int64_t usual_window = 4096, usual_pattern = 6;

void read_gemma3(const HfConfigReader& config, ModelConfig& model) {
  config.require("head_dim");  // Hugging Face does not derive it from the other sizes
  read_decoder(config, model);
  model.biases.qkv = model.biases.attention_out = config.flag_or("attention_bias", false);
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  const double scalar = config.positive_or("query_pre_attn_scalar", 256);
  model.score_scale = scalar == static_cast<double>(model.head_dim) ? 0 : 1 / std::sqrt(scalar);
  std::int64_t every = usual_pattern;
  for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"})
    if (config.has(key)) every = config.count(key);
  read_windows(config, {.window = read_window(config, usual_window), .full_every = every}, model);
  model.rope.theta = usual_theta;
  read_rope(config, model);
  const double local_theta = config.positive_or("rope_local_base_freq", usual_local_theta);
  if (!has_rope_by_type(config)) model.windowed_rope = Rope{.theta = local_theta};
  drop_idle_windows(model);
}

// Scores are divided by its square root. The published ones are whole numbers, which twelve digits keep.
double query_scalar(const ModelConfig& config) {
  if (config.score_scale == 0) return static_cast<double>(config.head_dim);
  return std::stod(fmt::format("{:.12g}", 1 / (config.score_scale * config.score_scale)));
}

void write_gemma3(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_windows(config, text);
  if (config.window == 0) text["sliding_window"] = config.max_positions;
  text["attention_bias"] = config.biases.qkv;
  // transformers 5 refuses a number with a fraction point.
  const double scalar = query_scalar(config);
  text["query_pre_attn_scalar"] = scalar == std::round(scalar) ? Json(static_cast<std::int64_t>(scalar)) : Json(scalar);
  text["rope_local_base_freq"] = config.windowed_rope.value_or(config.rope).theta;
}

// Those of Hugging Face's Gemma3TextConfig; other keys that are absent mean the same there and in a language model's own file.
Json gemma3_text_defaults() {
  return Json::object({{"vocab_size", 262208},
                       {"hidden_size", 2304},
                       {"intermediate_size", 9216},
                       {"num_hidden_layers", 26},
                       {"num_attention_heads", 8},
                       {"num_key_value_heads", 4},
                       {"head_dim", 256},
                       {"max_position_embeddings", 131072},
                       {"rms_norm_eps", 1e-6}});
}

}  // namespace

FamilySpec gemma3_family() {
  return {.name = "Gemma 3",
          .model_type = "gemma3_text",
          .architecture = "Gemma3ForCausalLM",
          .classifier = "Gemma3TextForSequenceClassification",
          .defaults = {.family = Family::gemma3,
                       .activation = Activation::geglu,
                       .norm_offset = 1,
                       .output_norms = true,
                       .head_norms = true,
                       .tied_embeddings = true},
          .bos_id = 2,
          .eos_id = 1,
          .pad_id = 0,
          .has_windows = true,
          .multimodal = MultimodalSpec{.model_type = "gemma3",
                                       .architecture = "Gemma3ForConditionalGeneration",
                                       .text_defaults = gemma3_text_defaults,
                                       .keys = {"vision_config", "mm_tokens_per_image", "image_token_index", "image_token_id",
                                                "boi_token_index", "boi_token_id", "eoi_token_index", "eoi_token_id"},
                                       .part_prefixes = {"vision_tower.", "multi_modal_projector."}},
          .read = read_gemma3,
          .write = write_gemma3};
}

}  // namespace pipetrain
