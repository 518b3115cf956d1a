// Llama. Its config.json has the keys of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters).
#include <fmt/format.h>

#include <algorithm>

#include "model/families/family.hpp"

namespace pipetrain {
namespace {

// Throws where something of the model is beyond what is built.
void refuse_unbuilt_llama(const HfConfigReader& config) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.flag_or(key, false)) config.refuse(key, "is true: biases are not built; use a model without them");
  }
  if (config.text_or("hidden_act", "silu") != "silu") config.refuse_value("hidden_act", "\"silu\"");
}

void refuse_partial_rotation(const HfConfigReader& rope) {
  if (rope.has("partial_rotary_factor") && rope.value("partial_rotary_factor") != 1) {
    rope.refuse_value("partial_rotary_factor", "1 (rotating a part of a head is not built)");
  }
}

RopeScaling read_rope_scaling(const HfConfigReader& rope) {
  RopeScaling scaling;
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text_or(key, "default");
  if (type == "default") return scaling;
  if (type != "linear" && type != "llama3") rope.refuse_value(key, "\"default\", \"linear\" or \"llama3\"");
  scaling.factor = rope.positive("factor");
  if (scaling.factor < 1) rope.refuse_value("factor", "at least 1");
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::linear;
    return scaling;
  }
  scaling.kind = RopeScaling::Kind::llama3;
  scaling.low_freq_factor = rope.positive("low_freq_factor");
  scaling.high_freq_factor = rope.positive("high_freq_factor");
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.refuse_value("high_freq_factor", fmt::format("above low_freq_factor ({})", scaling.low_freq_factor));
  }
  scaling.original_max_positions = rope.count("original_max_position_embeddings");
  return scaling;
}

// The one kind of attention that is built, as transformers 5 names it.
constexpr const char* full_attention = "full_attention";

// Where a file says of what type each layer is, all must attend to everything.
void check_layer_types(const HfConfigReader& config) {
  if (!config.has("layer_types")) return;
  const Json& types = config.value("layer_types");
  const auto is_full = [](const Json& type) { return type == full_attention; };
  if (!types.is_array() || !std::all_of(types.begin(), types.end(), is_full))
    config.refuse_value("layer_types", fmt::format("a list of \"{}\" only (other layers are not built)", full_attention));
}

// The settings under the key: one object, or as transformers 5 writes them too, one for each type of layer, under its name.
HfConfigReader rope_settings(const HfConfigReader& config, const char* key) {
  const HfConfigReader rope = config.inner(key);
  const auto members = config.value(key).items();
  const auto is_type = [](const Json::Item& item) { return item.value.is_object(); };
  if (std::none_of(members.begin(), members.end(), is_type)) return rope;
  for (const auto& [name, member] : members) {
    if (!member.is_object() && !member.is_null()) rope.refuse_value(name, "an object, as the other members are");
    if (member.is_object() && name != full_attention)
      rope.refuse(name, fmt::format("sets layers of a type that is not built; known: {}", full_attention));
  }
  return rope.inner(full_attention);
}

// Hugging Face takes it from outside the rotary settings too, where it wins over theirs.
void refuse_other_original_size(const HfConfigReader& config, const RopeScaling& scaling) {
  constexpr const char* key = "original_max_position_embeddings";
  if (scaling.kind != RopeScaling::Kind::llama3 || !config.has(key)) return;
  if (config.count(key) != scaling.original_max_positions)
    config.refuse_value(key, fmt::format("that of the rotary settings ({}), or absent", scaling.original_max_positions));
}

void read_rope(const HfConfigReader& config, ModelConfig& model) {
  check_layer_types(config);
  refuse_partial_rotation(config);
  bool has_theta = config.has("rope_theta"), has_scaling = false;
  model.rope_theta = config.positive_or("rope_theta", model.rope_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const HfConfigReader rope = rope_settings(config, key);
    refuse_partial_rotation(rope);
    const double theta = rope.positive_or("rope_theta", model.rope_theta);
    if (has_theta && theta != model.rope_theta)
      config.refuse(fmt::format("rope_theta is {} and that of {} is {}; keep one", model.rope_theta, key, theta));
    const RopeScaling scaling = read_rope_scaling(rope);
    if (has_scaling && scaling != model.rope_scaling) config.refuse("rope_scaling and rope_parameters differ; keep one");
    has_theta = has_theta || rope.has("rope_theta");
    has_scaling = true;
    model.rope_theta = theta;
    model.rope_scaling = scaling;
  }
  refuse_other_original_size(config, model.rope_scaling);
}

void read_sizes(const HfConfigReader& config, ModelConfig& model) {
  model.hidden = config.count("hidden_size");
  model.layers = config.count("num_hidden_layers", most_layers);
  model.heads = config.count("num_attention_heads");
  model.kv_heads = config.has("num_key_value_heads") ? config.count("num_key_value_heads") : model.heads;
  model.intermediate = config.count("intermediate_size");
  model.max_positions = config.count("max_position_embeddings");
  if (model.heads % model.kv_heads != 0) {
    config.refuse_value("num_key_value_heads", fmt::format("a divisor of num_attention_heads ({})", model.heads));
  }
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

Json rope_json(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  Json rope = Json::object();
  switch (scaling.kind) {
    case RopeScaling::Kind::none:
      rope["rope_type"] = "default";
      break;
    case RopeScaling::Kind::linear:
      rope["rope_type"] = "linear";
      rope["factor"] = scaling.factor;
      break;
    case RopeScaling::Kind::llama3:
      rope["rope_type"] = "llama3";
      rope["factor"] = scaling.factor;
      rope["low_freq_factor"] = scaling.low_freq_factor;
      rope["high_freq_factor"] = scaling.high_freq_factor;
      rope["original_max_position_embeddings"] = scaling.original_max_positions;
      break;
  }
  return rope;
}

// Hugging Face's Llama gives the embedding of the token of padding no gradient; a negative id counts from the vocabulary's end.
std::optional<std::int64_t> padding_row(const HfConfigReader& config, std::int64_t vocabulary) {
  const auto id = config.whole("pad_token_id");
  if (!id || *id < -vocabulary || *id >= vocabulary) return {};
  return *id < 0 ? *id + vocabulary : *id;
}

void read_llama(const HfConfigReader& config, ModelConfig& model) {
  refuse_unbuilt_llama(config);
  read_sizes(config, model);
  model.norm_eps = config.positive("rms_norm_eps");
  read_rope(config, model);
  model.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  model.dropout.attention = config.share_or("attention_dropout", 0);
  model.untrained_row = padding_row(config, model.vocabulary);
}

void write_llama(const ModelConfig& config, Json& text) {
  text["hidden_size"] = config.hidden;
  text["num_hidden_layers"] = config.layers;
  text["num_attention_heads"] = config.heads;
  text["num_key_value_heads"] = config.kv_heads;
  text["head_dim"] = config.head_dim;
  text["intermediate_size"] = config.intermediate;
  text["max_position_embeddings"] = config.max_positions;
  text["hidden_act"] = "silu";
  text["rms_norm_eps"] = config.norm_eps;
  text["attention_bias"] = false;
  text["attention_dropout"] = config.dropout.attention;
  text["mlp_bias"] = false;
  // transformers 4 reads rope_theta and rope_scaling, 5 rope_parameters.
  const Json rope = rope_json(config);
  text["rope_theta"] = config.rope_theta;
  text["rope_scaling"] = config.rope_scaling.kind == RopeScaling::Kind::none ? Json(nullptr) : rope;
  text["rope_parameters"] = rope;
  text["rope_parameters"]["rope_theta"] = config.rope_theta;
}

constexpr FamilyNames llama_names{.embedding = "model.embed_tokens.weight",
                                  .head = "lm_head.weight",
                                  .layers = "model.layers.",
                                  .optional_prefix = "",
                                  .recomputed = {".rotary_emb.inv_freq", nullptr}};

TensorSpec norm(const ModelConfig& config, const std::string& name) {
  return {.role = TensorRole::norm_weight,
          .name = name,
          .shape = {config.hidden},
          .initialisation = Initialisation::ones,
          .decays = false};
}

std::vector<TensorSpec> llama_attention_tensors(const ModelConfig& config, const std::string& prefix) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = config.heads * config.head_dim, key_value = config.kv_heads * config.head_dim;
  const auto qkv = [&](const char* name, std::int64_t outputs) {
    return TensorSpec{.role = TensorRole::qkv_weight, .name = prefix + name, .shape = {outputs, hidden}, .split = Split::rows};
  };
  return {norm(config, prefix + "input_layernorm.weight"),
          qkv("self_attn.q_proj.weight", query),
          qkv("self_attn.k_proj.weight", key_value),
          qkv("self_attn.v_proj.weight", key_value),
          {.role = TensorRole::attention_out_weight,
           .name = prefix + "self_attn.o_proj.weight",
           .shape = {hidden, query},
           .split = Split::columns}};
}

std::vector<TensorSpec> llama_mlp_tensors(const ModelConfig& config, const std::string& prefix) {
  const std::int64_t hidden = config.hidden, inner = config.intermediate;
  const auto gate_or_up = [&](const char* name) {
    return TensorSpec{.role = TensorRole::mlp_in_weight, .name = prefix + name, .shape = {inner, hidden}, .split = Split::rows};
  };
  return {norm(config, prefix + "post_attention_layernorm.weight"),
          gate_or_up("mlp.gate_proj.weight"),
          gate_or_up("mlp.up_proj.weight"),
          {.role = TensorRole::mlp_out_weight,
           .name = prefix + "mlp.down_proj.weight",
           .shape = {hidden, inner},
           .split = Split::columns}};
}

std::vector<TensorSpec> llama_tensors(const ModelConfig& config, const Block& block) {
  const std::string prefix = fmt::format("{}{}.", llama_names.layers, block.layer);
  switch (block.kind) {
    case BlockKind::embedding:
      return {{.role = TensorRole::token_table,
               .name = llama_names.embedding,
               .shape = {config.vocabulary, config.hidden},
               .split = Split::rows}};
    case BlockKind::attention:
      return llama_attention_tensors(config, prefix);
    case BlockKind::mlp:
      return llama_mlp_tensors(config, prefix);
    case BlockKind::head:
      return {norm(config, "model.norm.weight"), output_tensor(config, llama_names)};
  }
  return {};
}

}  // namespace

FamilySpec llama_family() {
  return {.name = "Llama",
          .model_type = "llama",
          .architecture = "LlamaForCausalLM",
          .classifier = "LlamaForSequenceClassification",
          .names = llama_names,
          .dropouts = {&DropoutRates::attention},
          .defaults = {},
          .bos_id = 1,
          .eos_id = 2,
          .read = read_llama,
          .write = write_llama,
          .tensors = llama_tensors};
}

}  // namespace pipetrain
