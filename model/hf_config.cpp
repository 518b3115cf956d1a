// Hugging Face's config.json of a Llama model: the keys of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters).
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "model/config.hpp"
#include "model/files.hpp"
#include "model/strict_json.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

constexpr std::size_t most_config_bytes = std::size_t{4} << 20;
constexpr std::int64_t most_layers = 10'000;
constexpr std::int64_t most_of_anything = std::int64_t{1} << 24;
constexpr double most_parameters = 1e14;  // with the above, counts of parameters and operations fit 64 bits

// One JSON object of a file, read key by key with errors that name both. A null counts as absent, as Hugging Face has it.
class Reader {
 public:
  Reader(const json& object, std::string file, std::string prefix = "")
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  [[noreturn]] void refuse(const std::string& what) const { throw Error(ErrorKind::input, fmt::format("{}: {}", file_, what)); }
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    refuse(fmt::format("\"{}{}\" {}", prefix_, key, what));
  }
  // What the value is and what it should be.
  [[noreturn]] void refuse_value(const std::string& key, const std::string& rule) const {
    std::string shown = object_.at(key).dump(-1, ' ', true, json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    refuse(key, fmt::format("is {}; it must be {}", shown, rule));
  }

  bool has(const std::string& key) const {
    const auto found = object_.find(key);
    return found != object_.end() && !found->is_null();
  }
  void require(const std::string& key) const {
    if (!has(key)) refuse(fmt::format("key \"{}{}\" is missing; a Llama model needs it", prefix_, key));
  }

  std::int64_t count(const std::string& key, std::int64_t most = most_of_anything) const {
    require(key);
    const json& value = object_.at(key);
    if (!value.is_number_integer() || value < 1 || value > most) {
      refuse_value(key, fmt::format("a whole number from 1 to {}", most));
    }
    return value.get<std::int64_t>();
  }
  double positive(const std::string& key) const {
    require(key);
    const json& value = object_.at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0) {
      refuse_value(key, "a number above 0");
    }
    return value.get<double>();
  }
  double positive_or(const std::string& key, double otherwise) const { return has(key) ? positive(key) : otherwise; }
  bool flag(const std::string& key) const {
    if (!has(key)) return false;
    if (!object_.at(key).is_boolean()) refuse_value(key, "true or false");
    return object_.at(key).get<bool>();
  }
  std::string text_or(const std::string& key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!object_.at(key).is_string()) refuse_value(key, "a text");
    return object_.at(key).get<std::string>();
  }
  // A token id, or the first of a list of them.
  std::optional<std::int64_t> token(const std::string& key, std::int64_t vocabulary) const {
    if (!has(key)) return std::nullopt;
    const json& value = object_.at(key);
    if (value.is_array() && value.empty()) return std::nullopt;
    const json& first = value.is_array() ? value.front() : value;
    if (!first.is_number_integer() || first < 0 || first >= vocabulary) {
      refuse_value(key, fmt::format("a token id below the vocabulary size {}", vocabulary));
    }
    return first.get<std::int64_t>();
  }
  Reader inner(const std::string& key) const {
    if (!object_.at(key).is_object()) refuse_value(key, "an object");
    return Reader(object_.at(key), file_, prefix_ + key + ".");
  }
  const json& value(const std::string& key) const { return object_.at(key); }

 private:
  const json& object_;
  std::string file_, prefix_;
};

// Throws unless this is a Llama with a language-model head, and nothing of it is beyond what is built.
void check_architecture(const Reader& config) {
  const auto refuse_family = [&](const std::string& name) {
    config.refuse(fmt::format("unknown architecture \"{}\"{}; known: llama (LlamaForCausalLM)", name,
                              name.starts_with("gpt2") || name.starts_with("GPT2") ? " (GPT-2 models are not built yet)" : ""));
  };
  const std::string type = config.text_or("model_type", "");
  if (!type.empty() && type != "llama") refuse_family(type);
  if (config.has("architectures")) {
    if (!config.value("architectures").is_array()) config.refuse_value("architectures", "a list of names");
    for (const json& name : config.value("architectures")) {
      if (!name.is_string()) config.refuse_value("architectures", "a list of names");
      if (name != "LlamaForCausalLM") refuse_family(name.get<std::string>());
    }
  } else if (type.empty()) {
    config.refuse("key \"model_type\" is missing; known: llama");
  }

  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.flag(key)) config.refuse(key, "is true: biases are not built; use a model without them");
  }
  if (config.text_or("hidden_act", "silu") != "silu") config.refuse_value("hidden_act", "\"silu\"");
  if (config.has("attention_dropout") && config.value("attention_dropout") != 0) {
    config.refuse_value("attention_dropout", "0 (dropout is not built)");
  }
  if (config.has("quantization_config")) config.refuse("quantization_config", "is set; use the model's unquantized weights");
}

RopeScaling read_rope_scaling(const Reader& rope) {
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

void read_rope(const Reader& config, ModelConfig& model) {
  model.rope_theta = config.positive_or("rope_theta", model.rope_theta);
  if (config.has("rope_scaling")) model.rope_scaling = read_rope_scaling(config.inner("rope_scaling"));
  if (!config.has("rope_parameters")) return;

  const Reader rope = config.inner("rope_parameters");
  if (rope.has("partial_rotary_factor") && rope.value("partial_rotary_factor") != 1) {
    rope.refuse_value("partial_rotary_factor", "1 (rotating a part of a head is not built)");
  }
  const double theta = rope.positive_or("rope_theta", model.rope_theta);
  if (config.has("rope_theta") && theta != model.rope_theta) {
    config.refuse(fmt::format("rope_theta is {} and rope_parameters.rope_theta is {}; keep one", model.rope_theta, theta));
  }
  const RopeScaling scaling = read_rope_scaling(rope);
  if (config.has("rope_scaling") && scaling != model.rope_scaling) {
    config.refuse("rope_scaling and rope_parameters differ; keep one");
  }
  model.rope_theta = theta;
  model.rope_scaling = scaling;
}

void read_sizes(const Reader& config, ModelConfig& model) {
  model.hidden = config.count("hidden_size");
  model.layers = config.count("num_hidden_layers", most_layers);
  model.heads = config.count("num_attention_heads");
  model.kv_heads = config.has("num_key_value_heads") ? config.count("num_key_value_heads") : model.heads;
  model.intermediate = config.count("intermediate_size");
  model.vocabulary = config.count("vocab_size");
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
  if (model.heads > most_of_anything / model.head_dim) {
    config.refuse_value("num_attention_heads",
                        fmt::format("at most {} for heads of {}", most_of_anything / model.head_dim, model.head_dim));
  }
  const auto real = [](std::int64_t count) { return static_cast<double>(count); };
  const double layer_columns = 2 * real(model.heads + model.kv_heads) * real(model.head_dim) + 3 * real(model.intermediate);
  const double parameters = real(model.hidden) * (real(model.layers) * layer_columns + 2 * real(model.vocabulary));
  if (parameters > most_parameters) {
    config.refuse(
        fmt::format("the model would have {:.3g} parameters, more than the {:.3g} supported", parameters, most_parameters));
  }
}

json rope_json(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  json rope = json::object();
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

}  // namespace

ModelConfig read_hf_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const json parsed = parse_strict_json(read_text(file, most_config_bytes), file.string());
  if (!parsed.is_object()) throw Error(ErrorKind::input, fmt::format("{}: not a JSON object", file.string()));
  const Reader config(parsed, file.string());
  check_architecture(config);
  ModelConfig model;
  read_sizes(config, model);
  model.norm_eps = config.positive("rms_norm_eps");
  read_rope(config, model);
  model.tied_embeddings = config.flag("tie_word_embeddings");
  model.init_std = config.positive_or("initializer_range", model.init_std);
  model.bos_id = config.token("bos_token_id", model.vocabulary);
  model.eos_id = config.token("eos_token_id", model.vocabulary);
  return model;
}

std::string hf_config_text(const ModelConfig& config) {
  const auto token = [](const std::optional<std::int64_t>& id) { return id.has_value() ? json(*id) : json(nullptr); };
  json text;
  text["architectures"] = {"LlamaForCausalLM"};
  text["model_type"] = "llama";
  text["hidden_size"] = config.hidden;
  text["num_hidden_layers"] = config.layers;
  text["num_attention_heads"] = config.heads;
  text["num_key_value_heads"] = config.kv_heads;
  text["head_dim"] = config.head_dim;
  text["intermediate_size"] = config.intermediate;
  text["vocab_size"] = config.vocabulary;
  text["max_position_embeddings"] = config.max_positions;
  text["hidden_act"] = "silu";
  text["rms_norm_eps"] = config.norm_eps;
  text["initializer_range"] = config.init_std;
  text["tie_word_embeddings"] = config.tied_embeddings;
  text["attention_bias"] = false;
  text["attention_dropout"] = 0.0;
  text["mlp_bias"] = false;
  text["bos_token_id"] = token(config.bos_id);
  text["eos_token_id"] = token(config.eos_id);
  text["use_cache"] = true;
  // transformers 4 reads the first of each pair, 5 the second.
  text["torch_dtype"] = text["dtype"] = "float32";
  const json rope = rope_json(config);
  text["rope_theta"] = config.rope_theta;
  text["rope_scaling"] = config.rope_scaling.kind == RopeScaling::Kind::none ? json(nullptr) : rope;
  text["rope_parameters"] = rope;
  text["rope_parameters"]["rope_theta"] = config.rope_theta;
  return text.dump(2) + "\n";
}

}  // namespace pipetrain
