// Seed-OSS: biases of queries, keys and values, of the attention's output by a key of its own, and dropout of what attention
// and MLP add to the residual stream.
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

constexpr double seed_oss_dropout = 0.1;

void read_seed_oss(const HfConfigReader& config, ModelConfig& model) {
  config.require("head_dim");  // where it is absent, Hugging Face takes 128, whatever the other sizes are
  read_decoder(config, model);
  refuse_windowed_layers(config);
  read_rope(config, model);
  model.biases = {.qkv = config.flag_or("attention_bias", true),
                  .attention_out = config.flag_or("attention_out_bias", false),
                  .mlp = config.flag_or("mlp_bias", false)};
  model.dropout.attention = config.share_or("attention_dropout", seed_oss_dropout);
  model.dropout.residual = config.share_or("residual_dropout", seed_oss_dropout);
}

void write_seed_oss(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_biases(config, text);
  text["attention_out_bias"] = config.biases.attention_out;
  text["residual_dropout"] = config.dropout.residual;
}

}  // namespace

FamilySpec seed_oss_family() {
  return {.name = "Seed-OSS",
          .model_type = "seed_oss",
          .architecture = "SeedOssForCausalLM",
          .classifier = "SeedOssForSequenceClassification",
          .dropouts = {&DropoutRates::attention, &DropoutRates::residual},
          .defaults = {.family = Family::seed_oss, .biases = {.qkv = true}},
          .bos_id = 0,
          .eos_id = 2,
          .pad_id = 1,
          .read = read_seed_oss,
          .write = write_seed_oss};
}

}  // namespace pipetrain
