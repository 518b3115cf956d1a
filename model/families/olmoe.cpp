// OLMoE: Llama with norms over all queries and all keys, and routed experts in every layer.
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"
#include "model/families/routed_decoder.hpp"

namespace pipetrain {
namespace {

void read_olmoe(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  refuse_windowed_layers(config);
  read_rope(config, model);
  model.biases.qkv = model.biases.attention_out = config.flag_or("attention_bias", false);
  read_experts(config, usual_expert_names, 0.01, model);
  model.experts.intermediate = model.intermediate;
  model.experts.normalised = config.flag_or("norm_topk_prob", false);
}

void write_olmoe(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  text["attention_bias"] = config.biases.qkv;
  write_experts(config, usual_expert_names, text);
  text["norm_topk_prob"] = config.experts.normalised;
}

}  // namespace

FamilySpec olmoe_family() {
  return {.name = "OLMoE",
          .model_type = "olmoe",
          .architecture = "OlmoeForCausalLM",
          .classifier = "",
          .defaults = {.family = Family::olmoe, .projection_norms = true},
          .eos_id = 50279,
          .pad_id = 1,
          .read = read_olmoe,
          .write = write_olmoe,
          .tensors = routed_decoder_tensors,
          .experts = &usual_expert_names};
}

}  // namespace pipetrain
