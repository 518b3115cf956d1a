#include "model/weights/peft/peft_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/json_builder.hpp"
#include "model/config/adapter_roles.hpp"
#include "model/families/adapter_tensors.hpp"
#include "model/families/family.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_config_bytes = std::size_t{4} << 20;
constexpr std::int64_t most_rank = 1 << 16;

// The keys that change nothing in what the adapters compute.
constexpr const char* silent_peft_keys[] = {"auto_mapping",  "base_model_name_or_path", "inference_mode",    "peft_version",
                                            "megatron_core", "fan_in_fan_out",          "qalora_group_size", "revision"};

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// The modules that may be trained besides the adapters, by the last parts of their names.
struct SavableModules {
  std::set<std::string> embeddings, norms;
  std::string head;
};

SavableModules savable_modules(const ModelConfig& config) {
  SavableModules modules;
  for (const BlockCount& counted : block_counts(config)) {
    for (const TensorSpec& tensor : spec_of(config.family).tensors(config, counted.block)) {
      if (is_of_norm(tensor.role)) modules.norms.insert(last_part(tensor.name.substr(0, tensor.name.rfind('.'))));
      if (counted.block.kind == BlockKind::embedding) modules.embeddings.insert(last_part(module_of(tensor.name)));
    }
  }
  modules.head = last_part(module_of(config.classifies() ? classifier_head : spec_of(config.family).names.head));
  return modules;
}

bool asks_for_nothing(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.as_bool()) ||
         ((value.is_array() || value.is_object()) && value.empty());
}

class PeftConfigReader {
 public:
  explicit PeftConfigReader(const fs::path& file)
      : file_(file), config_(parse_json(read_text(file, most_config_bytes), {file.string()})) {
    if (!config_.is_object()) refuse("is no JSON object; give a folder that PEFT has saved");
  }

  void read(ModelConfig& model) const {
    check_kind(model);
    Adapter& adapter = model.adapter;
    adapter = {};
    adapter.rank = rank_in("r", config_.find("r"));
    const Json* alpha = config_.find("lora_alpha");
    adapter.alpha = alpha == nullptr ? 8 : number_in("lora_alpha", *alpha);  // PEFT's default
    const Json* dropout = config_.find("lora_dropout");
    adapter.dropout = dropout == nullptr ? 0 : number_in("lora_dropout", *dropout);
    if (!(adapter.dropout >= 0 && adapter.dropout < 1)) refuse_value("lora_dropout", "a share from 0 to below 1");
    adapter.root_scale = flag("use_rslora");
    adapter.magnitudes = flag("use_dora");
    adapter.parameters = names("target_parameters");
    adapter.targets = targets(adapter.parameters);
    adapter.layers = layers();
    for (const auto& [name, rank] : pattern("rank_pattern")) adapter.ranks[name] = rank_in("rank_pattern", rank);
    for (const auto& [name, value] : pattern("alpha_pattern")) adapter.alphas[name] = number_in("alpha_pattern", *value);
    read_saved_modules(model);
    refuse_others();
    check_targets(model);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}", file_.string(), what));
  }
  [[noreturn]] void refuse_value(const char* key, const std::string& wanted) const {
    refuse(fmt::format("{} is {}, and must be {}", key, config_.at(key).dump({.replace = true}), wanted));
  }

  void check_kind(const ModelConfig& model) const {
    const Json* type = config_.find("peft_type");
    if (type == nullptr || !type->is_string()) refuse("has no peft_type; give a folder that PEFT has saved");
    if (type->as_string() != "LORA") refuse_value("peft_type", "\"LORA\" (other adapters are not built)");
    const Json* task = config_.find("task_type");
    if (task == nullptr || task->is_null()) return;
    const char* const wanted = model.classifies() ? "SEQ_CLS" : "CAUSAL_LM";
    if (!task->is_string() || task->as_string() != wanted)
      refuse_value("task_type", fmt::format("\"{}\" for this model", wanted));
  }

  double number_in(const char* key, const Json& value) const {
    if (!value.is_number() || !(value.as_double() >= 0))
      refuse(fmt::format("{} has {}, and must have numbers from 0 on", key, value.dump({.replace = true})));
    return value.as_double();
  }
  std::int64_t rank_in(const char* key, const Json* value) const {
    const auto rank = value == nullptr ? std::optional<std::int64_t>(8) : value->whole();
    if (!rank || *rank < 1 || *rank > most_rank)
      refuse(fmt::format("{} has {}, and must have ranks from 1 to {}", key, value->dump({.replace = true}), most_rank));
    return *rank;
  }
  bool flag(const char* key) const {
    const Json* value = config_.find(key);
    if (value == nullptr || value->is_null()) return false;
    if (!value->is_boolean()) refuse_value(key, "true or false");
    return value->as_bool();
  }
  std::vector<std::string> names(const char* key) const {
    std::vector<std::string> names;
    const Json* value = config_.find(key);
    if (value == nullptr || value->is_null()) return names;
    if (!value->is_array()) refuse_value(key, "a list of names");
    for (const Json& name : *value) {
      if (!name.is_string()) refuse_value(key, "a list of names");
      names.push_back(name.as_string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Parameters may have adapters where no module has.
  std::vector<std::string> targets(const std::vector<std::string>& parameters) const {
    const Json* value = config_.find("target_modules");
    if (!parameters.empty() && (value == nullptr || asks_for_nothing(*value))) return {};
    if (value == nullptr || value->is_null()) refuse("has no target_modules; name the modules that have adapters");
    if (value->is_string()) {
      if (value->as_string() != "all-linear")
        refuse_value("target_modules", "\"all-linear\" or a list of names (regular expressions are not built)");
      return {};
    }
    const std::vector<std::string> found = names("target_modules");
    if (found.empty()) refuse_value("target_modules", "a list of names that is not empty");
    return found;
  }

  std::vector<std::int64_t> layers() const {
    const Json* value = config_.find("layers_to_transform");
    if (value == nullptr || value->is_null()) return {};
    std::vector<std::int64_t> layers;
    const auto add = [&](const Json& one) {
      const auto layer = one.whole();
      if (!layer || *layer < 0) refuse_value("layers_to_transform", "the number of a layer or a list of them");
      layers.push_back(*layer);
    };
    if (value->is_array())
      for (const Json& one : *value) add(one);
    else
      add(*value);
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    return layers;
  }

  // The keys of a pattern are regular expressions for the end of a module's name; only plain names are built, and ".*\\."
  // before them, which PEFT writes for the parameters of experts and which changes nothing.
  std::vector<std::pair<std::string, const Json*>> pattern(const char* key) const {
    std::vector<std::pair<std::string, const Json*>> found;
    const Json* value = config_.find(key);
    if (value == nullptr || value->is_null()) return found;
    if (!value->is_object()) refuse_value(key, "an object of names and numbers");
    for (const auto& [pattern, number] : value->items(JsonOrder::as_added)) {
      constexpr std::string_view any_before = ".*\\.";
      const std::string name = pattern.starts_with(any_before) ? pattern.substr(any_before.size()) : pattern;
      if (name.find_first_of("^$*+?()[]{}|\\") != std::string::npos)
        refuse(fmt::format("{} has the regular expression {}, which is not built; give the names of modules", key, pattern));
      found.emplace_back(name, &number);
    }
    return found;
  }

  void read_saved_modules(ModelConfig& model) const {
    const SavableModules savable = savable_modules(model);
    std::set<std::string> left;
    for (const std::string& name : names("modules_to_save")) left.insert(last_part(name));
    const auto take = [&left](const std::set<std::string>& modules) {
      const bool all = std::all_of(modules.begin(), modules.end(), [&](const auto& name) { return left.contains(name); });
      if (all)
        for (const std::string& name : modules) left.erase(name);
      return all && !modules.empty();
    };
    model.trained = {.blocks = false, .embeddings = take(savable.embeddings), .head = take({savable.head})};
    model.adapter.norms = take(savable.norms);
    if (!left.empty())
      refuse(fmt::format("modules_to_save has {}, which is not built by itself; the embeddings, {} and all norms together are",
                         *left.begin(), savable.head));
    if (model.tied_embeddings && (model.trained.embeddings || model.trained.head))
      refuse("modules_to_save has an end of the model's tied table of tokens, which is not built; leave it out");
  }

  void refuse_others() const {
    if (const Json* bias = config_.find("bias"); bias != nullptr && *bias != Json("none"))
      refuse_value("bias", "\"none\" (trained biases are not built)");
    if (const Json* init = config_.find("init_lora_weights"))
      if (!init->is_boolean() && *init != Json("gaussian") && *init != Json("orthogonal"))
        refuse_value("init_lora_weights",
                     "true, false, \"gaussian\" or \"orthogonal\" (others change the model's own weights, which is not built)");
    constexpr std::string_view read[] = {"peft_type",
                                         "task_type",
                                         "r",
                                         "lora_alpha",
                                         "lora_dropout",
                                         "use_rslora",
                                         "use_dora",
                                         "target_modules",
                                         "rank_pattern",
                                         "alpha_pattern",
                                         "bias",
                                         "modules_to_save",
                                         "layers_to_transform",
                                         "init_lora_weights",
                                         "target_parameters"};
    for (const auto& [key, value] : config_.items()) {
      const auto is_it = [key = std::string_view(key)](std::string_view known) { return known == key; };
      if (std::any_of(std::begin(read), std::end(read), is_it)) continue;
      if (std::any_of(std::begin(silent_peft_keys), std::end(silent_peft_keys), is_it)) continue;
      if (key == "layers_pattern" && value.is_string()) continue;  // the name of the list of layers, which a model has once
      if (!asks_for_nothing(value))
        refuse(fmt::format("{} is {}, which is not built; take an adapter without it", shown_json_key(key),
                           value.dump({.replace = true})));
    }
  }

  void check_targets(const ModelConfig& model) const {
    for (const std::int64_t layer : model.adapter.layers)
      if (layer >= model.layers)
        refuse(fmt::format("layers_to_transform has {}, and the model {} layers", layer, model.layers));
    if (model.adapter.targets.empty() && model.adapter.parameters.empty() && model.routed_layers() > 0)
      refuse_value("target_modules",
                   "a list of names for a model with routed experts, which count as linear modules in some "
                   "versions of transformers alone");
    if (const auto fault = find_target_fault(model)) {
      const auto& parameters = model.adapter.parameters;
      const bool is_parameter = std::find(parameters.begin(), parameters.end(), fault->target) != parameters.end();
      refuse(fmt::format("{}: {}: {}", is_parameter ? "target_parameters" : "target_modules", fault->target, fault->why));
    }
  }

  fs::path file_;
  Json config_;
};

std::vector<std::string> modules_to_save(const ModelConfig& config) {
  const SavableModules savable = savable_modules(config);
  std::vector<std::string> names;
  if (config.trained.embeddings) names.assign(savable.embeddings.begin(), savable.embeddings.end());
  if (config.trained.head) names.push_back(savable.head);
  if (config.adapter.norms) names.insert(names.end(), savable.norms.begin(), savable.norms.end());
  return names;
}

// Returns the last parts of the names of all modules that have adapters. PEFT's own list for "all-linear" has routers too.
std::vector<std::string> target_names(const ModelConfig& config) {
  if (!config.adapter.targets.empty() || !config.adapter.parameters.empty()) return config.adapter.targets;
  std::set<std::string> names;
  for (const BlockCount& counted : block_counts(config)) {
    if (!is_of_layer(counted.block.kind)) continue;
    for (const auto& module : adaptable_modules(config.adapter, spec_of(config.family).tensors(config, counted.block)))
      if (module) names.insert(last_part(module->name));
  }
  return {names.begin(), names.end()};
}

bool stores_transposed(const ModelConfig& config) {
  const auto tensors = spec_of(config.family).tensors(config, {BlockKind::attention, 0});
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorSpec& tensor) { return tensor.transposed; });
}

}  // namespace

ModelConfig with_peft_config(ModelConfig base, const fs::path& folder) {
  PeftConfigReader(folder / peft_config_file).read(base);
  return base;
}

std::string peft_config_text(const ModelConfig& config, const std::string& base) {
  const Adapter& adapter = config.adapter;
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& [name, rank] : adapter.ranks) ranks[name] = rank;
  for (const auto& [name, alpha] : adapter.alphas) alphas[name] = alpha;
  const std::vector<std::string> saved = modules_to_save(config);
  Json text = Json::object({{"peft_type", "LORA"},
                            {"task_type", config.classifies() ? "SEQ_CLS" : "CAUSAL_LM"},
                            {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
                            {"r", adapter.rank},
                            {"lora_alpha", adapter.alpha},
                            {"lora_dropout", adapter.dropout},
                            {"use_rslora", adapter.root_scale},
                            {"use_dora", adapter.magnitudes},
                            {"bias", "none"},
                            {"fan_in_fan_out", stores_transposed(config)},
                            {"init_lora_weights", true},
                            {"inference_mode", true}});
  text["target_modules"] = target_names(config);
  if (!adapter.parameters.empty()) text["target_parameters"] = adapter.parameters;
  text["rank_pattern"] = std::move(ranks);
  text["alpha_pattern"] = std::move(alphas);
  text["layers_to_transform"] = adapter.layers.empty() ? Json() : Json(adapter.layers);
  text["modules_to_save"] = saved.empty() ? Json() : Json(saved);
  return text.dump({.indent = 2, .order = JsonOrder::as_added, .replace = true}) + "\n";
}

}  // namespace pipetrain
