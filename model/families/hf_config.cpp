// Hugging Face's config.json: which family's it is, and what those of all families have.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "model/config/hf_config_text.hpp"
#include "model/families/family.hpp"
#include "model/families/hf_config.hpp"
#include "model/families/hf_labels.hpp"
#include "model/families/keys/hf_config_reader.hpp"
#include "model/families/keys/silent_keys.hpp"
#include "model/families/multimodal_config.hpp"
#include "model/families/unbuilt_keys.hpp"

namespace pipetrain {
namespace {

constexpr double most_parameters = 1e14;  // with the other limits, counts of parameters and operations fit 64 bits

// Returns null if there is none.
const FamilySpec* find_family(const char* FamilySpec::*key, const std::string& name) {
  for (const FamilySpec& family : families()) {
    if (!name.empty() && name == family.*key) return &family;
  }
  return nullptr;
}

// Returns the family whose language model is inside of the multimodal model of this name; null if there is none.
const FamilySpec* find_multimodal(const char* MultimodalSpec::*key, const std::string& name) {
  for (const FamilySpec& family : families()) {
    if (family.multimodal && name == (*family.multimodal).*key) return &family;
  }
  return nullptr;
}

[[noreturn]] void refuse_unknown(const HfConfigReader& config, const std::string& name, const std::string& more = "") {
  std::vector<std::string> known;
  for (const FamilySpec& family : families()) {
    const std::string classifier = *family.classifier != 0 ? fmt::format(" or {}", family.classifier) : "";
    known.push_back(fmt::format("{} ({}{})", family.model_type, family.architecture, classifier));
  }
  for (const FamilySpec& family : families())
    if (family.multimodal)
      known.push_back(fmt::format("{} ({})", family.multimodal->model_type, family.multimodal->architecture));
  config.refuse(fmt::format("unknown architecture \"{}\"; known: {}{}", name, fmt::join(known, ", "), more));
}

std::vector<std::string> read_architectures(const HfConfigReader& config) {
  std::vector<std::string> names;
  if (!config.has("architectures")) return names;
  if (!config.value("architectures").is_array()) config.refuse_value("architectures", "a list of names");
  for (const Json& name : config.value("architectures")) {
    if (!name.is_string()) config.refuse_value("architectures", "a list of names");
    names.push_back(name.as_string());
  }
  return names;
}

// By model_type, by architectures where it is absent; where both are there, they must agree.
struct FoundFamily {
  const FamilySpec& family;
  bool classifies = false, is_multimodal = false;
};
FoundFamily read_family(const HfConfigReader& config) {
  const std::string type = config.text_or("model_type", "");
  const FamilySpec* family = find_family(&FamilySpec::model_type, type);
  if (const auto* const outer = find_multimodal(&MultimodalSpec::model_type, type)) {
    for (const std::string& name : read_architectures(config))
      if (name != outer->multimodal->architecture) refuse_unknown(config, name, "; only these heads are built");
    return {.family = *outer, .is_multimodal = true};
  }
  if (!type.empty() && !family) refuse_unknown(config, type);
  bool classifies = false;
  for (const std::string& name : read_architectures(config)) {
    if (const auto* const outer = find_multimodal(&MultimodalSpec::architecture, name); outer && !family)
      return {.family = *outer, .is_multimodal = true};
    const FamilySpec* found = find_family(&FamilySpec::architecture, name);
    if (!found) {
      found = find_family(&FamilySpec::classifier, name);
      classifies = found != nullptr;
    }
    if (!found) refuse_unknown(config, name, family ? "; only these heads are built" : "");
    if (family && found != family) {
      config.refuse_value("architectures",
                          fmt::format("[\"{}\"] for model_type \"{}\"", family->architecture, family->model_type));
    }
    family = found;
  }
  if (!family) {
    std::vector<std::string> known;
    for (const FamilySpec& one : families()) known.emplace_back(one.model_type);
    config.refuse(fmt::format("key \"model_type\" is missing; add it, one of {}", fmt::join(known, ", ")));
  }
  return {*family, classifies};
}

// Counts all matrices and tables as if none were tied; in floating point because 64 bits may not hold the count yet.
double untied_elements(const ModelConfig& config) {
  double elements = 0;
  for (const BlockCount& counted : block_counts(config)) {
    for (const TensorSpec& tensor : block_tensors(config, counted.block)) {
      if (tensor.shape.rank() > 1) elements += static_cast<double>(tensor.elements()) * static_cast<double>(counted.blocks);
    }
  }
  return elements;
}

// null, a number or a list.
Json tokens_json(const std::vector<std::int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids.front()) : Json(ids);
}

// transformers takes the family's ids where a key is absent; null says that there is none. An id beyond the
// vocabulary is ignored.
void read_ends(const HfConfigReader& config, const FamilySpec& family, ModelConfig& model) {
  const auto read = [&](const char* key, std::optional<std::int64_t> usual) {
    if (config.mentions(key)) return config.tokens(key, model.vocabulary);
    return usual && *usual < model.vocabulary ? std::vector{*usual} : std::vector<std::int64_t>();
  };
  const auto begins = read("bos_token_id", family.bos_id);
  if (!begins.empty()) model.bos_id = begins.front();
  model.eos_ids = read("eos_token_id", family.eos_id);
}

constexpr const char *quantization_key = "quantization_config", *compression_key = "compression_config";

void refuse_quantized(const HfConfigReader& config) {
  for (const char* key : {quantization_key, compression_key}) {
    if (!config.has(key)) continue;
    const std::string method = config.value(key).is_object() ? config.inner(key).text_or("quant_method", "") : "";
    config.refuse(key, fmt::format("is set{}; use the model's unquantized weights",
                                   method.empty() ? "" : fmt::format(": the weights are quantized by {}", method)));
  }
}

// Returns the form of the matrices that bitsandbytes has quantised to nf4; plain where nothing is quantised, or the family's
// files are read in the form that they have. Refuses the rest.
WeightForm read_quantization(const HfConfigReader& config, const FamilySpec& family) {
  if (!config.has(quantization_key) || !config.value(quantization_key).is_object())
    return refuse_quantized(config), WeightForm::plain;
  const HfConfigReader settings = config.inner(quantization_key);
  const std::string method = settings.text_or("quant_method", "");
  if (!method.empty() && method == family.read_quantization) {
    constexpr const char* block = "weight_block_size";
    if (settings.has(block) && settings.value(block) != Json::array({128, 128})) settings.refuse_value(block, "[128, 128]");
    return WeightForm::plain;
  }
  const bool is_four_bits = method == "bitsandbytes" && settings.flag_or("load_in_4bit", false);
  if (!is_four_bits) refuse_quantized(config);
  const std::string type = settings.text_or("bnb_4bit_quant_type", "fp4");
  const std::string storage = settings.text_or("bnb_4bit_quant_storage", "uint8");
  if (type != "nf4" || storage != "uint8")
    config.refuse(quantization_key,
                  fmt::format("is set: bitsandbytes has quantized the weights to {} in {}; nf4 in uint8 is read, "
                              "and so are unquantized weights",
                              type, storage));
  return settings.flag_or("bnb_4bit_use_double_quant", false) ? WeightForm::nf4 : WeightForm::nf4_scales;
}

// Reads the configuration of the language model from config.json, or from its text_config.
ModelConfig read_language_model(const HfConfigReader& config, const FoundFamily& found) {
  const FamilySpec& family = found.family;
  ModelConfig model = family.defaults;
  model.vocabulary = config.count("vocab_size");
  family.read(config, model);
  if (found.classifies) {
    model.labels = read_labels(config);
    model.tied_embeddings = false;
  }
  if (const double parameters = untied_elements(model); parameters > most_parameters) {
    config.refuse(fmt::format("the model would have {:.3g} parameters, more than the {:.3g} supported; correct its sizes",
                              parameters, most_parameters));
  }
  model.init_std = config.positive_or("initializer_range", model.init_std);
  read_ends(config, family, model);
  if (!config.mentions("pad_token_id"))
    model.pad_id = usual_pad_id(model);
  else
    model.pad_id = found.classifies ? config.token("pad_token_id", model.vocabulary) : config.whole("pad_token_id");
  refuse_unbuilt_keys(config, model);
  config.refuse_other_keys(silent_keys());
  return model;
}

}  // namespace

bool names_known_family(const Json& object, const std::string& name) try {
  const HfConfigReader config(object, name, "transformer");
  if (const std::string type = config.text_or("model_type", ""); !type.empty())
    return find_family(&FamilySpec::model_type, type) || find_multimodal(&MultimodalSpec::model_type, type);
  const std::vector<std::string> names = read_architectures(config);
  return std::any_of(names.begin(), names.end(), [](const std::string& one) {
    return find_family(&FamilySpec::architecture, one) || find_family(&FamilySpec::classifier, one) ||
           find_multimodal(&MultimodalSpec::architecture, one);
  });
} catch (const Error&) {  // neither key has the form of a name
  return false;
}

ModelConfig read_hf_config(const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / "config.json";
  return parse_hf_config(read_text(file, most_config_bytes), file.string());
}

ModelConfig parse_hf_config(std::string_view text, const std::string& name) {
  return read_config_object(parse_json(text, {name}), name);
}

ModelConfig read_config_object(const Json& object, const std::string& name, std::vector<std::string>* understood) {
  if (!object.is_object())
    throw Error(ErrorKind::input, fmt::format("{}: not a JSON object; correct the file, or copy it again", name));
  const HfConfigReader any(object, name, "transformer");
  const FoundFamily found = read_family(any);
  const HfConfigReader config(object, name, found.family.name);
  const auto keep_asked = [&](const HfConfigReader& reader) {
    if (!understood) return;
    for (std::string& key : reader.keys_asked()) understood->push_back(std::move(key));
  };
  keep_asked(any);
  if (!found.is_multimodal) {
    const WeightForm form = read_quantization(config, found.family);
    ModelConfig model = read_language_model(config, found);
    model.base_form = form;
    keep_asked(config);
    return model;
  }
  refuse_quantized(config);
  const Json text_config = read_text_config(config, found.family);
  const HfConfigReader inner(text_config, name, found.family.name, fmt::format("{}.", text_config_key));
  refuse_quantized(inner);
  ModelConfig model = read_language_model(inner, found);
  read_outer_keys(config, *found.family.multimodal, model);
  keep_asked(config);
  keep_asked(inner);
  return model;
}

std::string hf_config_text(const ModelConfig& config) {
  const auto token = [](const std::optional<std::int64_t>& id) { return id.has_value() ? Json(*id) : Json(nullptr); };
  const FamilySpec& family = spec_of(config.family);
  Json text;
  family.write(config, text);
  text["architectures"] = Json::array({config.classifies() ? family.classifier : family.architecture});
  if (config.classifies()) write_labels(config.labels, text);
  if (config.classifies() || config.pad_id || family.pad_id) text["pad_token_id"] = token(config.pad_id);
  text["model_type"] = family.model_type;
  text["vocab_size"] = config.vocabulary;
  text["initializer_range"] = config.init_std;
  text["tie_word_embeddings"] = config.tied_embeddings;
  text["bos_token_id"] = token(config.bos_id);
  text["eos_token_id"] = tokens_json(config.eos_ids);
  text["use_cache"] = true;
  // transformers 4 reads the first, 5 the second.
  text["torch_dtype"] = text["dtype"] = "float32";
  return text.dump({.indent = 2}) + "\n";
}

}  // namespace pipetrain
