#include "model/families/multimodal_config.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <vector>

#include "files/file_io.hpp"
#include "files/json.hpp"
#include "model/config/hf_config_text.hpp"
#include "model/families/keys/silent_keys.hpp"

namespace pipetrain {
namespace {

constexpr const char* tie_key = "tie_word_embeddings";

}  // namespace

bool is_multimodal(const Json& config) {
  const Json *const type = config.find("model_type"), *const names = config.find("architectures");
  for (const FamilySpec& family : families()) {
    if (!family.multimodal) continue;
    if (type && *type == family.multimodal->model_type) return true;
    if (!type && names && names->is_array() && !names->empty() && (*names)[0] == family.multimodal->architecture) return true;
  }
  return false;
}

Json read_text_config(const HfConfigReader& outer, const FamilySpec& family) {
  Json text = family.multimodal->text_defaults();
  if (!outer.has(text_config_key)) return text;
  const HfConfigReader inner = outer.inner(text_config_key);
  if (inner.text_or("model_type", family.model_type) != family.model_type)
    inner.refuse_value("model_type", fmt::format("\"{}\"", family.model_type));
  for (const auto& [key, value] : outer.value(text_config_key).items()) text[key] = value;
  return text;
}

void read_outer_keys(const HfConfigReader& outer, const MultimodalSpec& spec, ModelConfig& model) {
  // transformers 5 reads the outer key, transformers 4 the inner one.
  const bool tied = outer.flag_or(tie_key, true);
  if (tied != model.tied_embeddings)
    outer.refuse(tie_key, fmt::format("is {}{}, and text_config.{} is {}; let both say the same", tied,
                                      outer.has(tie_key) ? "" : " where it is absent", tie_key, model.tied_embeddings));
  if (outer.mentions("eos_token_id")) model.eos_ids = outer.tokens("eos_token_id", model.vocabulary);
  if (outer.mentions("bos_token_id")) model.bos_id = outer.token("bos_token_id", model.vocabulary);
  std::vector<const char*> silent(spec.keys);
  silent.insert(silent.end(), silent_keys().begin(), silent_keys().end());
  outer.refuse_other_keys(silent);
}

std::optional<Json> read_multimodal_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  Json config = parse_json(read_text(file, most_config_bytes), {file.string()});
  return is_multimodal(config) ? std::optional(std::move(config)) : std::nullopt;
}

Json with_text_config(Json outer, const ModelConfig& model) {
  ModelConfig own = parse_hf_config(outer.dump({.replace = true}), "config.json");
  own.trained = model.trained;
  own.base_form = model.base_form;
  if (own == model) return outer;
  Json text = parse_json(hf_config_text(model), {"config.json"}, {.values = 0});
  outer[tie_key] = model.tied_embeddings;
  outer[text_config_key] = std::move(text);
  return outer;
}

}  // namespace pipetrain
