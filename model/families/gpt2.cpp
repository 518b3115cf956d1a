// GPT-2. Its config.json has the same keys in transformers 4 and 5; early files also have n_ctx, which is n_positions again.
// Its files keep a layer's matrices as [inputs, outputs], and query, key and value as one.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/families/family.hpp"

namespace pipetrain {
namespace {

struct DropoutKey {
  const char* key;
  double DropoutRates::*rate;
};
constexpr DropoutKey dropout_keys[] = {{"resid_pdrop", &DropoutRates::residual},
                                       {"embd_pdrop", &DropoutRates::embedding},
                                       {"attn_pdrop", &DropoutRates::attention}};

// Throws Error(input) for settings that are not built.
void refuse_unbuilt_gpt2(const HfConfigReader& config) {
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

// Hugging Face also accepts a second name for each of these sizes and prefers it, so two that differ are refused.
void refuse_second_names(const HfConfigReader& config) {
  constexpr std::pair<const char*, const char*> names[] = {{"n_embd", "hidden_size"},
                                                           {"n_layer", "num_hidden_layers"},
                                                           {"n_head", "num_attention_heads"},
                                                           {"n_positions", "max_position_embeddings"}};
  for (const auto& [name, second] : names) {
    if (!config.has(second)) continue;
    config.require(name);
    if (config.value(second) != config.value(name))
      config.refuse(fmt::format("{} and {} name the same size and differ; keep one", name, second));
  }
}

void read_gpt2(const HfConfigReader& config, ModelConfig& model) {
  refuse_unbuilt_gpt2(config);
  refuse_second_names(config);
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
  for (const auto& [key, rate] : dropout_keys) model.dropout.*rate = config.share_or(key, 0.1);
}

void write_gpt2(const ModelConfig& config, Json& text) {
  text["n_embd"] = config.hidden;
  text["n_layer"] = config.layers;
  text["n_head"] = config.heads;
  text["n_inner"] = config.intermediate;
  text["n_positions"] = config.max_positions;
  text["activation_function"] = "gelu_new";
  text["layer_norm_epsilon"] = config.norm_eps;
  for (const auto& [key, rate] : dropout_keys) text[key] = config.dropout.*rate;
  text["scale_attn_weights"] = true;
  text["scale_attn_by_inverse_layer_idx"] = false;
  text["reorder_and_upcast_attn"] = false;
  text["add_cross_attention"] = false;
}

constexpr FamilyNames gpt2_names{.embedding = "transformer.wte.weight",
                                 .head = "lm_head.weight",
                                 .layers = "transformer.h.",
                                 .optional_prefix = "transformer.",
                                 .recomputed = {".attn.bias", ".attn.masked_bias"}};  // causal masks

TensorSpec matrix(TensorRole role, const std::string& name, const Shape& shape, Split split) {
  return {.role = role, .name = name + ".weight", .shape = shape, .split = split, .transposed = true};
}

void add_norm(const ModelConfig& config, const std::string& name, std::vector<TensorSpec>& tensors) {
  tensors.push_back(norm_tensor(TensorRole::norm_weight, name, config.hidden));
  tensors.push_back(bias_tensor(TensorRole::norm_bias, name, config.hidden, Split::none));
}

// A matrix whose output is added to the residual stream. Its bias is added to the ranks' sum, by each rank to its own tokens.
void add_output(TensorRole weight_role, TensorRole bias_role, const std::string& name, const Shape& shape,
                std::vector<TensorSpec>& tensors) {
  TensorSpec weight = matrix(weight_role, name, shape, Split::rows);
  weight.initialisation = Initialisation::residual_normal;
  tensors.push_back(weight);
  tensors.push_back(bias_tensor(bias_role, name, shape[1], Split::none));
}

std::vector<TensorSpec> embedding_tensors(const ModelConfig& config) {
  return {
      {.role = TensorRole::token_table,
       .name = gpt2_names.embedding,
       .shape = {config.vocabulary, config.hidden},
       .split = Split::rows},
      {.role = TensorRole::position_table, .name = "transformer.wpe.weight", .shape = {config.max_positions, config.hidden}}};
}

std::vector<TensorSpec> gpt2_attention_tensors(const ModelConfig& config, const std::string& prefix) {
  constexpr int parts = 3;  // query, key, value
  const std::int64_t hidden = config.hidden;
  const std::string fused = prefix + "attn.c_attn";
  std::vector<TensorSpec> tensors;
  add_norm(config, prefix + "ln_1", tensors);
  for (int part = 0; part < parts; ++part) {
    tensors.push_back(matrix(TensorRole::qkv_weight, fused, {hidden, parts * hidden}, Split::columns));
    tensors.back().part = {part, parts};
  }
  for (int part = 0; part < parts; ++part) {
    tensors.push_back(bias_tensor(TensorRole::qkv_bias, fused, parts * hidden, Split::rows));
    tensors.back().part = {part, parts};
  }
  add_output(TensorRole::attention_out_weight, TensorRole::attention_out_bias, prefix + "attn.c_proj", {hidden, hidden},
             tensors);
  return tensors;
}

std::vector<TensorSpec> gpt2_mlp_tensors(const ModelConfig& config, const std::string& prefix) {
  const std::int64_t hidden = config.hidden, inner = config.intermediate;
  std::vector<TensorSpec> tensors;
  add_norm(config, prefix + "ln_2", tensors);
  tensors.push_back(matrix(TensorRole::mlp_in_weight, prefix + "mlp.c_fc", {hidden, inner}, Split::columns));
  tensors.push_back(bias_tensor(TensorRole::mlp_in_bias, prefix + "mlp.c_fc", inner, Split::rows));
  add_output(TensorRole::mlp_out_weight, TensorRole::mlp_out_bias, prefix + "mlp.c_proj", {inner, hidden}, tensors);
  return tensors;
}

std::vector<TensorSpec> gpt2_tensors(const ModelConfig& config, const Block& block) {
  const std::string prefix = fmt::format("{}{}.", gpt2_names.layers, block.layer);
  std::vector<TensorSpec> head;
  switch (block.kind) {
    case BlockKind::embedding:
      return embedding_tensors(config);
    case BlockKind::attention:
      return gpt2_attention_tensors(config, prefix);
    case BlockKind::mlp:
      return gpt2_mlp_tensors(config, prefix);
    case BlockKind::experts:
    case BlockKind::mtp:
      break;
    case BlockKind::head:
      add_norm(config, "transformer.ln_f", head);
      head.push_back(output_tensor(config, gpt2_names));
  }
  return head;
}

}  // namespace

FamilySpec gpt2_family() {
  return {.name = "GPT-2",
          .model_type = "gpt2",
          .architecture = "GPT2LMHeadModel",
          .classifier = "GPT2ForSequenceClassification",
          .names = gpt2_names,
          .dropouts = {&DropoutRates::embedding, &DropoutRates::attention, &DropoutRates::residual},
          .defaults = {.family = Family::gpt2,
                       .norm = NormKind::layer,
                       .positions = PositionKind::learned,
                       .activation = Activation::gelu,
                       .biases = {.qkv = true, .attention_out = true, .mlp = true}},
          .bos_id = 50256,
          .eos_id = 50256,
          .read = read_gpt2,
          .write = write_gpt2,
          .tensors = gpt2_tensors};
}

}  // namespace pipetrain
