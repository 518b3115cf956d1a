// Hugging Face's config.json of a GPT-2 model: transformers 4 and 5 have the same keys. Early files also have n_ctx, which is
// n_positions again.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/families/hf_family.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

constexpr const char* dropout_keys[] = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};

// Throws where something of the model is beyond what is built.
void refuse_unbuilt(const HfConfigReader& config) {
  const std::string activation = config.text_or("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {  // two names of one function
    config.refuse_value("activation_function", "\"gelu_new\" or \"gelu_pytorch_tanh\" (others are not built)");
  }
  if (!config.flag_or("scale_attn_weights", true)) {
    config.refuse_value("scale_attn_weights", "true (attention without a scale is not built)");
  }
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    if (config.flag_or(key, false)) config.refuse_value(key, "false (it is not built)");
  }
}

void read_gpt2(const HfConfigReader& config, ModelConfig& model) {
  refuse_unbuilt(config);
  model.hidden = config.count("n_embd");
  model.layers = config.count("n_layer", most_layers);
  model.heads = model.kv_heads = config.count("n_head");
  if (model.hidden % model.heads != 0) {
    config.refuse_value("n_embd", fmt::format("a multiple of n_head ({})", model.heads));
  }
  model.head_dim = model.hidden / model.heads;
  model.intermediate = config.has("n_inner") ? config.count("n_inner") : 4 * model.hidden;
  model.max_positions = config.count("n_positions");
  model.norm_eps = config.positive("layer_norm_epsilon");
  model.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  // Where a key is absent, Hugging Face drops a tenth.
  for (const char* key : dropout_keys) model.dropout = std::max(model.dropout, config.share_or(key, 0.1));
}

void write_gpt2(const ModelConfig& config, json& text) {
  text["n_embd"] = config.hidden;
  text["n_layer"] = config.layers;
  text["n_head"] = config.heads;
  text["n_inner"] = config.intermediate;
  text["n_positions"] = config.max_positions;
  text["activation_function"] = "gelu_new";
  text["layer_norm_epsilon"] = config.norm_eps;
  for (const char* key : dropout_keys) text[key] = config.dropout;
  text["scale_attn_weights"] = true;
  text["scale_attn_by_inverse_layer_idx"] = false;
  text["reorder_and_upcast_attn"] = false;
  text["add_cross_attention"] = false;
}

double gpt2_parameters(const ModelConfig& config) {
  const auto real = [](std::int64_t count) { return static_cast<double>(count); };
  const double layer_columns = 4 * real(config.hidden) + 2 * real(config.intermediate);
  return real(config.hidden) * (real(config.layers) * layer_columns + 2 * real(config.vocabulary) + real(config.max_positions));
}

}  // namespace

HfFamily gpt2_hf_family() { return {Family::gpt2, "gpt2", "GPT2LMHeadModel", "GPT-2", read_gpt2, write_gpt2, gpt2_parameters}; }

}  // namespace pipetrain
