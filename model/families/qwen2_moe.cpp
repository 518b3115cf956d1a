// Qwen2-MoE: Qwen2 with routed experts in some or all layers, and one more expert in each of them that all tokens pass through.
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"
#include "model/families/routed_decoder.hpp"

namespace pipetrain {
namespace {

void read_qwen2_moe(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  refuse_windowed_layers(config);
  config.whole("max_window_layers");  // for use_sliding_window, which is refused
  read_rope(config, model);
  model.biases.qkv = config.flag_or("qkv_bias", true);
  read_experts(config, usual_expert_names, 0.001, model);
  read_routed_layers(config, model);
  model.experts.intermediate = config.count("moe_intermediate_size");
  model.experts.shared_intermediate = config.count("shared_expert_intermediate_size");
  model.experts.normalised = config.flag_or("norm_topk_prob", false);
}

void write_qwen2_moe(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  text["use_sliding_window"] = false;
  text["qkv_bias"] = config.biases.qkv;
  write_experts(config, usual_expert_names, text);
  write_routed_layers(config, text);
  text["moe_intermediate_size"] = config.experts.intermediate;
  text["shared_expert_intermediate_size"] = config.experts.shared_intermediate;
  text["norm_topk_prob"] = config.experts.normalised;
}

}  // namespace

FamilySpec qwen2_moe_family() {
  return {.name = "Qwen2-MoE",
          .model_type = "qwen2_moe",
          .architecture = "Qwen2MoeForCausalLM",
          .classifier = "Qwen2MoeForSequenceClassification",
          .defaults = {.family = Family::qwen2_moe},
          .read = read_qwen2_moe,
          .write = write_qwen2_moe,
          .tensors = routed_decoder_tensors,
          .experts = &usual_expert_names};
}

}  // namespace pipetrain
