// OLMo 2: attention and MLP have a norm of their output and none of their input, and the queries and the keys have a norm over
// all heads.
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

void read_olmo2(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  refuse_windowed_layers(config);
  read_rope(config, model);
  model.biases.qkv = model.biases.attention_out = config.flag_or("attention_bias", false);
}

void write_olmo2(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  text["attention_bias"] = config.biases.qkv;
}

}  // namespace

FamilySpec olmo2_family() {
  return {.name = "OLMo 2",
          .model_type = "olmo2",
          .architecture = "Olmo2ForCausalLM",
          .classifier = "Olmo2ForSequenceClassification",
          .defaults = {.family = Family::olmo2, .input_norms = false, .output_norms = true, .projection_norms = true},
          .eos_id = 50279,
          .pad_id = 1,
          .read = read_olmo2,
          .write = write_olmo2};
}

}  // namespace pipetrain
