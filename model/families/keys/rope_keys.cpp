#include "model/families/keys/rope_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/families/family.hpp"
#include "model/families/keys/layer_type_keys.hpp"

namespace pipetrain {
namespace {

using Kind = RopeScaling::Kind;

constexpr std::pair<const char*, Kind> rope_types[] = {{"default", Kind::none},    {"linear", Kind::linear},
                                                       {"dynamic", Kind::dynamic}, {"llama3", Kind::llama3},
                                                       {"yarn", Kind::yarn},       {"longrope", Kind::longrope}};

constexpr const char* original_positions = "original_max_position_embeddings";

const char* type_name(Kind kind) {
  const auto is_it = [kind](const auto& type) { return type.second == kind; };
  return std::find_if(std::begin(rope_types), std::end(rope_types), is_it)->first;
}

Kind read_type(const HfConfigReader& rope, const RopeRules& rules) {
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string name = rope.text_or(key, "default");
  if (rules.only_longrope) {
    for (const char* longrope : {"longrope", "su", "yarn"})
      if (name == longrope) return Kind::longrope;
    if (name != "default") rope.refuse_value(key, "\"default\" or \"longrope\"");
  }
  std::vector<std::string> known;
  for (const auto& [type, kind] : rope_types) {
    if (name == type) return kind;
    known.push_back(fmt::format("\"{}\"", type));
  }
  rope.refuse_value(key, fmt::format("one of {}", fmt::join(known, ", ")));
}

double read_factor(const HfConfigReader& rope) {
  const double factor = rope.positive("factor");
  if (factor < 1) rope.refuse_value("factor", "at least 1");
  return factor;
}

std::optional<double> read_optional(const HfConfigReader& rope, const char* key) {
  return rope.has(key) ? std::optional(rope.positive(key)) : std::nullopt;
}

// The settings of one type of layer, with the whole file for what Hugging Face takes from outside of them.
struct RopeObject {
  const HfConfigReader& config;
  const HfConfigReader& rope;
  const ModelConfig& model;
  const RopeRules& rules;

  // Hugging Face reads this key outside of the rope settings too; if both are there, that one counts.
  std::int64_t read_original(std::int64_t otherwise) const {
    const bool is_outside = config.has(original_positions);
    const auto outside = is_outside ? std::optional(config.count(original_positions)) : rules.original_positions;
    if (!rope.has(original_positions)) return outside.value_or(otherwise);
    const std::int64_t original = rope.count(original_positions);
    if (!outside || *outside == original) return original;
    if (is_outside)
      config.refuse_value(original_positions, fmt::format("that of the rotary settings ({}), or absent", original));
    rope.refuse_value(original_positions,
                      fmt::format("{}, which holds where the key is absent outside of the rotary settings", *outside));
  }

  void read_llama3(RopeScaling& scaling) const {
    scaling.factor = read_factor(rope);
    scaling.low_freq_factor = rope.positive("low_freq_factor");
    scaling.high_freq_factor = rope.positive("high_freq_factor");
    if (scaling.high_freq_factor <= scaling.low_freq_factor)
      rope.refuse_value("high_freq_factor", fmt::format("above low_freq_factor ({})", scaling.low_freq_factor));
    if (!config.has(original_positions)) rope.require(original_positions);
    scaling.original_max_positions = read_original(0);
  }

  void read_yarn(RopeScaling& scaling) const {
    scaling.original_max_positions = read_original(model.max_positions);
    const double longer = static_cast<double>(model.max_positions) / static_cast<double>(scaling.original_max_positions);
    scaling.factor = rope.has("factor") ? read_factor(rope) : longer;
    if (scaling.factor < 1)
      (rope.has(original_positions) ? rope : config)
          .refuse_value(original_positions,
                        fmt::format("at most the model's {} positions where factor is absent", model.max_positions));
    scaling.beta_fast = rope.positive_or("beta_fast", scaling.beta_fast);
    scaling.beta_slow = rope.positive_or("beta_slow", scaling.beta_slow);
    if (scaling.beta_fast < scaling.beta_slow)
      rope.refuse_value("beta_fast", fmt::format("at least beta_slow ({})", scaling.beta_slow));
    scaling.truncates = rope.flag_or("truncate", true);
    scaling.attention_factor = read_optional(rope, "attention_factor");
    scaling.mscale = rope.number("mscale");
    scaling.mscale_all_dim = rope.number("mscale_all_dim");
  }

  std::vector<double> read_factors(const char* key, std::int64_t pairs) const {
    rope.require(key);
    const Json& list = rope.value(key);
    std::vector<double> factors;
    if (list.is_array())
      for (const Json& factor : list) factors.push_back(factor.is_number() ? factor.as_double() : 0);
    const bool are_positive = std::all_of(factors.begin(), factors.end(), [](double factor) { return factor > 0; });
    if (std::ssize(factors) != pairs || !are_positive)
      rope.refuse_value(key, fmt::format("a list of {} numbers above 0, one for each rotated pair", pairs));
    return factors;
  }

  void read_longrope(RopeScaling& scaling, std::int64_t pairs) const {
    scaling.original_max_positions = read_original(model.max_positions);
    scaling.factor = static_cast<double>(model.max_positions) / static_cast<double>(scaling.original_max_positions);
    if (rope.has("factor") && rope.positive("factor") != scaling.factor)
      rope.refuse_value("factor", fmt::format("{:.6g}, the model's {} positions over the original {}, or absent",
                                              scaling.factor, model.max_positions, scaling.original_max_positions));
    scaling.attention_factor = read_optional(rope, "attention_factor");
    scaling.short_factors = read_factors("short_factor", pairs);
    scaling.long_factors = read_factors("long_factor", pairs);
  }

  RopeScaling read_scaling(std::int64_t pairs) const {
    RopeScaling scaling;
    scaling.kind = read_type(rope, rules);
    if (scaling.kind == Kind::linear || scaling.kind == Kind::dynamic) scaling.factor = read_factor(rope);
    if (scaling.kind == Kind::llama3) read_llama3(scaling);
    if (scaling.kind == Kind::yarn) read_yarn(scaling);
    if (scaling.kind == Kind::longrope) read_longrope(scaling, pairs);
    return scaling;
  }
};

double read_rotated_share(const HfConfigReader& reader, const ModelConfig& model) {
  constexpr const char* key = "partial_rotary_factor";
  const double share = reader.positive(key);
  const std::int64_t columns = Rope{.rotated_share = share}.rotated_columns(model.head_dim);
  if (share > 1 || columns < 2 || columns % 2 != 0)
    reader.refuse_value(key,
                        fmt::format("at most 1, and such that an even number of a head's {} columns rotate", model.head_dim));
  return share;
}

// Keys that say nothing for some types of scaling, and nothing at all for what is computed.
constexpr const char* silent_rope_keys[] = {"rope_type",       "type",      "rope_theta",       "factor",
                                            "low_freq_factor", "beta_fast", "beta_slow",        "high_freq_factor",
                                            "truncate",        "mscale",    "mscale_all_dim",   "attention_factor",
                                            "short_factor",    "finetuned", original_positions, "long_factor"};

// `outer`: as the keys outside the settings have it; a value inside must not differ where `has_theta` or `has_share`.
struct OuterRope {
  Rope rope;
  RopeRules rules;
  bool has_theta = false, has_share = false;
};

Rope read_object(const HfConfigReader& config, const HfConfigReader& object, const char* key, const ModelConfig& model,
                 const OuterRope& outer) {
  Rope rope = outer.rope;
  rope.theta = object.positive_or("rope_theta", rope.theta);
  if (outer.has_theta && rope.theta != outer.rope.theta)
    config.refuse(fmt::format("rope_theta is {} and that of {} is {}; keep one", outer.rope.theta, key, rope.theta));
  if (object.has("partial_rotary_factor")) rope.rotated_share = read_rotated_share(object, model);
  if (outer.has_share && rope.rotated_share != outer.rope.rotated_share)
    object.refuse_value("partial_rotary_factor",
                        fmt::format("that outside of {} ({}), or absent", key, outer.rope.rotated_share));
  rope.scaling = RopeObject{config, object, model, outer.rules}.read_scaling(rope.rotated_columns(model.head_dim) / 2);
  object.refuse_other_keys(silent_rope_keys);
  return rope;
}

bool has_object_by_type(const HfConfigReader& config, const char* key) {
  const auto members = config.value(key).items();
  return std::any_of(members.begin(), members.end(), [](const Json::Item& item) { return item.value.is_object(); });
}

// Reads one object for each type of layer, under its name. The object of a type that no layer has changes nothing.
void read_objects_by_type(const HfConfigReader& config, const char* key, ModelConfig& model, const OuterRope& outer) {
  const HfConfigReader objects = config.inner(key);
  const bool windows = model.window > 0, may_have_windows = spec_of(model.family).has_windows;
  for (const auto& [name, member] : config.value(key).items()) {
    if (!member.is_object() && !member.is_null()) objects.refuse_value(name, "an object, as the other members are");
    if (member.is_object() && name != full_attention && !(may_have_windows && name == sliding_attention))
      objects.refuse(name, fmt::format("sets layers of a type that is not built; known: {}{}", full_attention,
                                       may_have_windows ? fmt::format(", {}", sliding_attention) : ""));
  }
  const auto read = [&](const char* type, const OuterRope& beside) {
    objects.require(type);
    return read_object(config, objects.inner(type), key, model, beside);
  };
  if (has_full_layers(model) || !windows) model.rope = read(full_attention, outer);
  if (!windows) return;
  const Rope windowed =
      read(sliding_attention, {.rope = {}, .rules = outer.rules});  // the keys outside are those of the other layers
  if (!has_full_layers(model)) model.rope = windowed;
  model.windowed_rope = windowed == model.rope ? std::nullopt : std::optional(windowed);
}

Json rope_json(const Rope& rope) {
  const RopeScaling& scaling = rope.scaling;
  Json text = Json::object();
  text["rope_type"] = type_name(scaling.kind);
  if (rope.rotated_share != 1) text["partial_rotary_factor"] = rope.rotated_share;
  if (scaling.kind == Kind::none) return text;
  if (scaling.kind == Kind::longrope) {
    text["short_factor"] = scaling.short_factors;
    text["long_factor"] = scaling.long_factors;
  } else {
    text["factor"] = scaling.factor;
  }
  if (scaling.kind == Kind::llama3) {
    text["low_freq_factor"] = scaling.low_freq_factor;
    text["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.kind == Kind::yarn) {
    text["beta_fast"] = scaling.beta_fast;
    text["beta_slow"] = scaling.beta_slow;
    text["truncate"] = scaling.truncates;
    if (scaling.mscale) text["mscale"] = *scaling.mscale;
    if (scaling.mscale_all_dim) text["mscale_all_dim"] = *scaling.mscale_all_dim;
  }
  if (scaling.attention_factor) text["attention_factor"] = *scaling.attention_factor;
  if (scaling.kind != Kind::linear && scaling.kind != Kind::dynamic) text[original_positions] = scaling.original_max_positions;
  return text;
}

Json with_theta(Json text, double theta) {
  text["rope_theta"] = theta;
  return text;
}

}  // namespace

void read_rope(const HfConfigReader& config, ModelConfig& model, const RopeRules& rules) {
  OuterRope outer{.rope = model.rope,
                  .rules = rules,
                  .has_theta = config.has("rope_theta"),
                  .has_share = config.has("partial_rotary_factor")};
  outer.rope.theta = config.positive_or("rope_theta", model.rope.theta);
  if (outer.has_share) outer.rope.rotated_share = read_rotated_share(config, model);
  model.rope = outer.rope;
  bool is_read = false;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const ModelConfig before = model;
    if (config.value(key).is_object() && has_object_by_type(config, key))
      read_objects_by_type(config, key, model, outer);
    else
      model.rope = read_object(config, config.inner(key), key, model, outer);
    if (is_read && model.rope.scaling != before.rope.scaling)
      config.refuse("rope_scaling and rope_parameters differ; keep one");
    is_read = true;
  }
}

bool has_rope_by_type(const HfConfigReader& config) {
  constexpr const char* key = "rope_parameters";
  return config.has(key) && config.value(key).is_object() && has_object_by_type(config, key);
}

void write_rope(const ModelConfig& config, Json& text) {
  // transformers 4 reads rope_theta and rope_scaling, 5 rope_parameters.
  const Json rope = rope_json(config.rope);
  text["rope_theta"] = config.rope.theta;
  Json scaling = rope;
  scaling["type"] = type_name(config.rope.scaling.kind);  // the first spelling, which other programs still read
  text["rope_scaling"] = config.rope.scaling.kind == Kind::none ? Json(nullptr) : std::move(scaling);
  if (config.rope.rotated_share != 1) text["partial_rotary_factor"] = config.rope.rotated_share;
  text["rope_parameters"] = with_theta(rope, config.rope.theta);
  if (!config.windowed_rope) return;
  text["rope_parameters"] = Json::object();
  text["rope_parameters"][full_attention] = with_theta(rope, config.rope.theta);
  text["rope_parameters"][sliding_attention] = with_theta(rope_json(*config.windowed_rope), config.windowed_rope->theta);
}

}  // namespace pipetrain
