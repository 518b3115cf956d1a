// Qwen3-MoE: Qwen3 with routed experts in some or all layers.
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"
#include "model/families/routed_decoder.hpp"

namespace pipetrain {
namespace {

void read_qwen3_moe(const HfConfigReader& config, ModelConfig& model) {
  config.require("head_dim");  // where it is absent, transformers' versions take different ones
  read_decoder(config, model);
  const std::int64_t window = read_window(config, 4096);
  set_windows({.window = config.flag_or("use_sliding_window", false) ? window : 0}, model);
  config.whole("max_window_layers");  // all layers have the window or none has
  read_rope(config, model);
  model.biases.qkv = model.biases.attention_out = config.flag_or("attention_bias", false);
  read_experts(config, usual_expert_names, 0.001, model);
  read_routed_layers(config, model);
  model.experts.intermediate = config.count("moe_intermediate_size");
  model.experts.normalised = config.flag_or("norm_topk_prob", false);
}

void write_qwen3_moe(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_window(config, text);
  text["use_sliding_window"] = config.window > 0;
  text["attention_bias"] = config.biases.qkv;
  write_experts(config, usual_expert_names, text);
  write_routed_layers(config, text);
  text["moe_intermediate_size"] = config.experts.intermediate;
  text["norm_topk_prob"] = config.experts.normalised;
}

}  // namespace

FamilySpec qwen3_moe_family() {
  return {.name = "Qwen3-MoE",
          .model_type = "qwen3_moe",
          .architecture = "Qwen3MoeForCausalLM",
          .classifier = "Qwen3MoeForSequenceClassification",
          .defaults = {.family = Family::qwen3_moe, .head_norms = true},
          .has_windows = true,
          .read = read_qwen3_moe,
          .write = write_qwen3_moe,
          .tensors = routed_decoder_tensors,
          .experts = &usual_expert_names};
}

}  // namespace pipetrain
