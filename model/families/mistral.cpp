// Mistral: all layers attend within one window, or none does.
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

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

}  // namespace

FamilySpec mistral_family() {
  return {.name = "Mistral",
          .model_type = "mistral",
          .architecture = "MistralForCausalLM",
          .classifier = "MistralForSequenceClassification",
          .defaults = {.family = Family::mistral},
          .bos_id = 1,
          .eos_id = 2,
          .has_windows = true,
          .read = read_mistral,
          .write = write_mistral};
}

}  // namespace pipetrain
