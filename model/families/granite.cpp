// Granite 3: embeddings, attention's scores and what attention and MLP add to the residual stream are multiplied with constants
// of the configuration, and logits are divided by one (after Yang et al. 2022, "Tensor Programs V").
#include <cmath>

#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

double usual_score_scale(const ModelConfig& config) { return 1 / std::sqrt(static_cast<double>(config.head_dim)); }

void read_granite(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  refuse_windowed_layers(config);
  read_rope(config, model);
  read_biases(config, model);
  model.embedding_scale = config.positive_or("embedding_multiplier", 1);
  model.residual_scale = config.positive_or("residual_multiplier", 1);
  model.logit_divisor = config.positive_or("logits_scaling", 1);
  const double scores = config.positive_or("attention_multiplier", 1);
  model.score_scale = scores == usual_score_scale(model) ? 0 : scores;
}

void write_granite(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_biases(config, text);
  text["embedding_multiplier"] = config.embedding_scale;
  text["residual_multiplier"] = config.residual_scale;
  text["logits_scaling"] = config.logit_divisor;
  text["attention_multiplier"] = config.score_scale == 0 ? usual_score_scale(config) : config.score_scale;
}

}  // namespace

FamilySpec granite_family() {
  return {.name = "Granite",
          .model_type = "granite",
          .architecture = "GraniteForCausalLM",
          .classifier = "",
          .defaults = {.family = Family::granite},
          .bos_id = 1,
          .eos_id = 2,
          .read = read_granite,
          .write = write_granite};
}

}  // namespace pipetrain
