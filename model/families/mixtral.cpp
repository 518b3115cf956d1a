// Mixtral: Mistral with routed experts in every layer, of which each token uses a few (Jiang et al. 2024, "Mixtral of
// Experts").
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"
#include "model/families/routed_decoder.hpp"

namespace pipetrain {
namespace {

constexpr ExpertNames mixtral_names{"block_sparse_moe.", "w1", "w3", "w2", "num_local_experts"};

void read_mixtral(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  set_windows({.window = read_window(config, 0)}, model);
  read_rope(config, model);
  read_experts(config, mixtral_names, 0.001, model);
  model.experts.intermediate = model.intermediate;
  if (config.number("router_jitter_noise").value_or(0) != 0)
    config.refuse_value("router_jitter_noise", "0, or absent (noise in front of the router is not built)");
}

void write_mixtral(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_window(config, text);
  write_experts(config, mixtral_names, text);
}

}  // namespace

FamilySpec mixtral_family() {
  return {.name = "Mixtral",
          .model_type = "mixtral",
          .architecture = "MixtralForCausalLM",
          .classifier = "MixtralForSequenceClassification",
          .defaults = {.family = Family::mixtral, .experts = {.normalised = true}},
          .bos_id = 1,
          .eos_id = 2,
          .has_windows = true,
          .read = read_mixtral,
          .write = write_mixtral,
          .tensors = routed_decoder_tensors,
          .experts = &mixtral_names};
}

}  // namespace pipetrain
