// Llama. Its config.json has the keys of transformers 4 and of 5.
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

void read_llama(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  refuse_windowed_layers(config);
  read_rope(config, model);
  read_biases(config, model);
}

void write_llama(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_biases(config, text);
}

}  // namespace

FamilySpec llama_family() {
  return {.name = "Llama",
          .model_type = "llama",
          .architecture = "LlamaForCausalLM",
          .classifier = "LlamaForSequenceClassification",
          .defaults = {},
          .bos_id = 1,
          .eos_id = 2,
          .read = read_llama,
          .write = write_llama};
}

}  // namespace pipetrain
