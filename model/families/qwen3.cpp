// Qwen3: an RMSNorm over each head of queries and keys, and a head size of its own.
#include "model/families/decoder.hpp"
#include "model/families/keys/qwen_windows.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

void read_qwen3(const HfConfigReader& config, ModelConfig& model) {
  config.require("head_dim");  // where it is absent, transformers' versions take different ones
  read_decoder(config, model);
  read_qwen_windows(config, model);
  read_rope(config, model);
  model.biases.qkv = model.biases.attention_out = config.flag_or("attention_bias", false);
}

void write_qwen3(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_qwen_windows(config, text);
  text["attention_bias"] = config.biases.qkv;
}

}  // namespace

FamilySpec qwen3_family() {
  return {.name = "Qwen3",
          .model_type = "qwen3",
          .architecture = "Qwen3ForCausalLM",
          .classifier = "Qwen3ForSequenceClassification",
          .defaults = {.family = Family::qwen3, .head_norms = true},
          .has_windows = true,
          .read = read_qwen3,
          .write = write_qwen3};
}

}  // namespace pipetrain
