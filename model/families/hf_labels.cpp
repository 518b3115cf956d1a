#include "model/families/hf_labels.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "model/families/family.hpp"

namespace pipetrain {
namespace {

std::vector<std::string> unnamed_labels(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t label = 0; label < count; ++label) labels.push_back(fmt::format("LABEL_{}", label));
  return labels;
}

void check_count(const HfConfigReader& config, const char* key, std::int64_t count) {
  if (count < least_labels || count > most_labels)
    config.refuse_value(key, fmt::format("of {} to {} classes (regression is not built)", least_labels, most_labels));
}

std::vector<std::string> named_labels(const HfConfigReader& config) {
  const Json& names = config.value("id2label");
  const auto refuse = [&] { config.refuse_value("id2label", "an object of the names of classes 0, 1, ..."); };
  if (!names.is_object()) refuse();
  check_count(config, "id2label", static_cast<std::int64_t>(names.size()));
  std::vector<std::string> labels;
  for (std::size_t label = 0; label < names.size(); ++label) {
    const Json* const name = names.find(std::to_string(label));
    if (!name || !name->is_string()) refuse();
    labels.push_back(name->as_string());
  }
  return labels;
}

}  // namespace

std::vector<std::string> read_labels(const HfConfigReader& config) {
  if (config.text_or("problem_type", "single_label_classification") != "single_label_classification")
    config.refuse_value("problem_type", "\"single_label_classification\" (others are not built)");
  std::vector<std::string> labels;
  if (config.has("id2label")) labels = named_labels(config);
  if (!config.has("num_labels")) return labels.empty() ? unnamed_labels(2) : labels;
  const std::int64_t count = config.count("num_labels");
  check_count(config, "num_labels", count);
  if (labels.empty()) return unnamed_labels(count);
  if (std::ssize(labels) != count) config.refuse_value("num_labels", fmt::format("{}, as many as id2label has", labels.size()));
  return labels;
}

void write_labels(const std::vector<std::string>& labels, Json& text) {
  text["num_labels"] = labels.size();
  for (std::size_t label = 0; label < labels.size(); ++label) {
    text["id2label"][std::to_string(label)] = labels[label];
    text["label2id"][labels[label]] = label;
  }
}

ModelConfig with_new_head(ModelConfig config, std::int64_t labels) {
  if (const FamilySpec& family = spec_of(config.family); *family.classifier == 0)
    throw Error(ErrorKind::input, {"num-labels", std::to_string(labels)},
                fmt::format("a {} has no head for classification; leave it out", family.name));
  config.labels = unnamed_labels(labels);
  config.tied_embeddings = false;
  // Hugging Face uses it to find the end of a sequence of a batch.
  const bool has_pad = config.pad_id && *config.pad_id >= 0 && *config.pad_id < config.vocabulary;
  if (!has_pad) config.pad_id = config.eos_ids.empty() ? std::nullopt : std::optional(config.eos_ids.front());
  return config;
}

}  // namespace pipetrain
