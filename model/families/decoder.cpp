#include "model/families/decoder.hpp"

#include <fmt/format.h>

#include <utility>

#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

// Returns the key that names the activation, and the name of the model's.
std::pair<const char*, const char*> activation_key(const ModelConfig& config) {
  if (config.activation == Activation::geglu) return {"hidden_activation", "gelu_pytorch_tanh"};
  return {"hidden_act", "silu"};
}

void read_head_dim(const HfConfigReader& config, ModelConfig& model) {
  if (config.has("head_dim")) {
    model.head_dim = config.count("head_dim");
  } else if (model.hidden % model.heads != 0) {
    config.refuse_value("hidden_size",
                        fmt::format("a multiple of num_attention_heads ({}) where head_dim is absent", model.heads));
  } else {
    model.head_dim = model.hidden / model.heads;
  }
  if (model.head_dim % 2 != 0) {
    config.refuse(
        fmt::format("the size of a head is {} (head_dim, or hidden_size / num_attention_heads); rotary embedding needs an "
                    "even one",
                    model.head_dim));
  }
  if (model.heads > HfConfigReader::most_of_anything / model.head_dim) {
    config.refuse_value("num_attention_heads", fmt::format("at most {} for heads of {}",
                                                           HfConfigReader::most_of_anything / model.head_dim, model.head_dim));
  }
}

// Hugging Face gives the embedding of the token of padding no gradient; a negative id counts from the vocabulary's end.
std::optional<std::int64_t> padding_row(const HfConfigReader& config, const ModelConfig& model) {
  if (!config.mentions("pad_token_id")) return usual_pad_id(model);
  const auto id = config.whole("pad_token_id");
  if (!id || *id < -model.vocabulary || *id >= model.vocabulary) return {};
  return *id < 0 ? *id + model.vocabulary : *id;
}

// Begins as a factor of 1, to which the norm may add an offset.
TensorSpec decoder_norm(const ModelConfig& config, TensorRole role, const std::string& name, std::int64_t size) {
  TensorSpec tensor = norm_tensor(role, name, size);
  if (config.norm_offset == 1) tensor.initialisation = Initialisation::zeros;
  return tensor;
}

// Each rank computes the gradient of its own heads, and all have the same weight.
TensorSpec head_norm(TensorRole role, const std::string& name, const ModelConfig& config) {
  TensorSpec tensor = decoder_norm(config, role, name, config.head_dim);
  tensor.shared = true;
  return tensor;
}

// Each rank has the weights of its own heads.
TensorSpec projection_norm(TensorRole role, const std::string& name, const ModelConfig& config, std::int64_t heads) {
  TensorSpec tensor = decoder_norm(config, role, name, heads * config.head_dim);
  tensor.split = Split::rows;
  tensor.indivisible = config.head_dim;
  return tensor;
}

// Returns the weights of the norms of queries and keys, over each head or over all of them.
std::vector<TensorSpec> query_key_norms(const ModelConfig& config, const std::string& prefix) {
  const std::string query = prefix + "q_norm", key = prefix + "k_norm";
  if (config.head_norms)
    return {head_norm(TensorRole::query_norm_weight, query, config), head_norm(TensorRole::key_norm_weight, key, config)};
  if (!config.projection_norms) return {};
  return {projection_norm(TensorRole::query_norm_weight, query, config, config.heads),
          projection_norm(TensorRole::key_norm_weight, key, config, config.kv_heads)};
}

// A matrix whose outputs are the heads' queries, keys or values.
struct HeadsMatrix {
  std::string name;
  std::int64_t heads;
};

std::vector<TensorSpec> attention_tensors(const ModelConfig& config, const std::string& prefix) {
  const std::int64_t hidden = config.hidden, query = config.heads * config.head_dim;
  const HeadsMatrix matrices[] = {{prefix + "self_attn.q_proj", config.heads},
                                  {prefix + "self_attn.k_proj", config.kv_heads},
                                  {prefix + "self_attn.v_proj", config.kv_heads}};
  const std::string out = prefix + "self_attn.o_proj";
  std::vector<TensorSpec> tensors;
  if (config.input_norms) tensors.push_back(decoder_norm(config, TensorRole::norm_weight, prefix + "input_layernorm", hidden));
  for (const auto& [name, heads] : matrices)
    tensors.push_back({.role = TensorRole::qkv_weight,
                       .name = name + ".weight",
                       .shape = {heads * config.head_dim, hidden},
                       .split = Split::rows,
                       .indivisible = config.head_dim});
  for (const auto& [name, heads] : matrices)
    if (config.biases.qkv) {
      tensors.push_back(bias_tensor(TensorRole::qkv_bias, name, heads * config.head_dim, Split::rows));
      tensors.back().indivisible = config.head_dim;
    }
  for (TensorSpec& norm : query_key_norms(config, prefix + "self_attn.")) tensors.push_back(std::move(norm));
  if (config.sinks)
    tensors.push_back({.role = TensorRole::sink_logits,
                       .name = prefix + "self_attn.sinks",
                       .shape = {config.heads},
                       .split = Split::rows,
                       .decays = false});
  tensors.push_back(
      {.role = TensorRole::attention_out_weight, .name = out + ".weight", .shape = {hidden, query}, .split = Split::columns});
  if (config.biases.attention_out) tensors.push_back(bias_tensor(TensorRole::attention_out_bias, out, hidden, Split::none));
  if (config.output_norms)
    tensors.push_back(decoder_norm(config, TensorRole::output_norm_weight, prefix + "post_attention_layernorm", hidden));
  return tensors;
}

std::vector<TensorSpec> mlp_tensors(const ModelConfig& config, const std::string& prefix) {
  const std::int64_t hidden = config.hidden, inner = config.intermediate;
  // If each part is followed by a norm, Hugging Face calls this one by another name.
  const char* const before = config.output_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  const std::string inputs[] = {prefix + "mlp.gate_proj", prefix + "mlp.up_proj"}, out = prefix + "mlp.down_proj";
  std::vector<TensorSpec> tensors;
  if (config.input_norms) tensors.push_back(decoder_norm(config, TensorRole::norm_weight, prefix + before, hidden));
  for (const std::string& name : inputs)
    tensors.push_back(
        {.role = TensorRole::mlp_in_weight, .name = name + ".weight", .shape = {inner, hidden}, .split = Split::rows});
  for (const std::string& name : inputs)
    if (config.biases.mlp) tensors.push_back(bias_tensor(TensorRole::mlp_in_bias, name, inner, Split::rows));
  tensors.push_back(
      {.role = TensorRole::mlp_out_weight, .name = out + ".weight", .shape = {hidden, inner}, .split = Split::columns});
  if (config.biases.mlp) tensors.push_back(bias_tensor(TensorRole::mlp_out_bias, out, hidden, Split::none));
  if (config.output_norms)
    tensors.push_back(decoder_norm(config, TensorRole::output_norm_weight, prefix + "post_feedforward_layernorm", hidden));
  return tensors;
}

}  // namespace

void read_decoder(const HfConfigReader& config, ModelConfig& model) {
  const auto [key, name] = activation_key(model);
  if (config.text_or(key, name) != name) config.refuse_value(key, fmt::format("\"{}\"", name));
  model.hidden = config.count("hidden_size");
  model.layers = config.count("num_hidden_layers", most_layers);
  model.heads = config.count("num_attention_heads");
  model.kv_heads = config.has("num_key_value_heads") ? config.count("num_key_value_heads") : model.heads;
  model.intermediate = config.count("intermediate_size");
  model.max_positions = config.count("max_position_embeddings");
  if (model.heads % model.kv_heads != 0) {
    config.refuse_value("num_key_value_heads", fmt::format("a divisor of num_attention_heads ({})", model.heads));
  }
  read_head_dim(config, model);
  model.norm_eps = config.positive("rms_norm_eps");
  model.tied_embeddings = config.flag_or("tie_word_embeddings", model.tied_embeddings);
  model.dropout.attention = config.share_or("attention_dropout", 0);
  model.untrained_row = padding_row(config, model);
}

void write_decoder(const ModelConfig& config, Json& text) {
  text["hidden_size"] = config.hidden;
  text["num_hidden_layers"] = config.layers;
  text["num_attention_heads"] = config.heads;
  text["num_key_value_heads"] = config.kv_heads;
  text["head_dim"] = config.head_dim;
  text["intermediate_size"] = config.intermediate;
  text["max_position_embeddings"] = config.max_positions;
  const auto [key, name] = activation_key(config);
  text[key] = name;
  text["rms_norm_eps"] = config.norm_eps;
  text["attention_dropout"] = config.dropout.attention;
  write_rope(config, text);
}

void read_biases(const HfConfigReader& config, ModelConfig& model) {
  model.biases.qkv = model.biases.attention_out = config.flag_or("attention_bias", false);
  model.biases.mlp = config.flag_or("mlp_bias", false);
}

void write_biases(const ModelConfig& config, Json& text) {
  text["attention_bias"] = config.biases.qkv;
  text["mlp_bias"] = config.biases.mlp;
}

std::vector<TensorSpec> decoder_tensors(const ModelConfig& config, const Block& block) {
  const std::string prefix = fmt::format("{}{}.", decoder_names.layers, block.layer);
  switch (block.kind) {
    case BlockKind::embedding:
      return {{.role = TensorRole::token_table,
               .name = decoder_names.embedding,
               .shape = {config.vocabulary, config.hidden},
               .split = Split::rows}};
    case BlockKind::attention:
      return attention_tensors(config, prefix);
    case BlockKind::mlp:
      return mlp_tensors(config, prefix);
    case BlockKind::experts:  // a family with experts adds them: see routed_decoder.hpp
    case BlockKind::mtp:      // and one with a further prediction its own: see further_decoder.hpp
      break;
    case BlockKind::head:
      return {decoder_norm(config, TensorRole::norm_weight, "model.norm", config.hidden), output_tensor(config, decoder_names)};
  }
  return {};
}

}  // namespace pipetrain
