// Mistral: all layers attend within one window, or none does.
#include "model/families/decoder.hpp"
#include "model/families/layer_type_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace pipetrain {
namespace {

void read_mistral(const HfConfigReader& config, ModelConfig& model) {
  constexpr std::int64_t mistral_window = 4096;  // where the key is absent
  read_decoder(config, model);
  set_windows({.window = read_window(config, mistral_window)}, model);
  read_rope(config, model);
}

void write_mistral(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_window(config, text);
}

ModelConfig mistral_defaults() {
  ModelConfig config;
  config.family = Family::mistral;
  return config;
}

}  // namespace

FamilySpec mistral_family() {
  return {.name = "Mistral",
          .model_type = "mistral",
          .architecture = "MistralForCausalLM",
          .classifier = "MistralForSequenceClassification",
          .names = decoder_names,
          .dropouts = {&DropoutRates::attention},
          .defaults = mistral_defaults(),
          .bos_id = 1,
          .eos_id = 2,
          .has_windows = true,
          .read = read_mistral,
          .write = write_mistral,
          .tensors = decoder_tensors};
}

}  // namespace pipetrain
