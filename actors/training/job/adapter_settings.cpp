#include "actors/training/job/adapter_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "model/families/adapter_tensors.hpp"
#include "model/weights/peft/peft_config.hpp"

namespace pipetrain {
namespace {

// Throws where a setting describes adapters and there are none, or a folder describes them already.
void check_adapter_settings(const AdapterSettings& settings) {
  const AdapterSettings usual;
  struct Given {
    const char* name;
    std::string value;
    bool is_given;
    bool of_new = false;  // describes new adapters
  };
  const Given all[] = {{"lora-rank", fmt::format("{}", settings.rank), settings.rank > 0, true},
                       {"lora-alpha", fmt::format("{}", settings.alpha.value_or(0)), settings.alpha.has_value(), true},
                       {"lora-dropout", fmt::format("{}", settings.dropout.value_or(0)), settings.dropout.has_value()},
                       {"lora-targets", settings.targets, settings.targets != usual.targets, true},
                       {"lora-rslora", "on", settings.root_scale, true},
                       {"lora-dora", "on", settings.magnitudes, true},
                       {"train-embeddings", "on", settings.train_embeddings, true},
                       {"train-head", "on", settings.train_head, true},
                       {"train-norms", "on", settings.train_norms, true}};
  for (const Given& one : all) {
    if (!one.is_given) continue;
    if (!settings.wanted())
      throw Error(ErrorKind::input, {one.name, one.value}, "there are no adapters; give lora-rank, or leave it out");
    if (one.of_new && !settings.folder.empty())
      throw Error(ErrorKind::input, {one.name, one.value}, "the folder of adapter says it already; leave one of them out");
  }
}

std::vector<std::string> target_names(const std::string& targets) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; targets != "all" && begin <= targets.size();) {
    const std::size_t end = std::min(targets.find(',', begin), targets.size());
    names.push_back(targets.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

Adapter new_adapter(const AdapterSettings& settings) {
  return {.rank = settings.rank,
          .alpha = settings.alpha.value_or(2 * static_cast<double>(settings.rank)),
          .dropout = settings.dropout.value_or(0),
          .root_scale = settings.root_scale,
          .targets = target_names(settings.targets),
          .magnitudes = settings.magnitudes,
          .norms = settings.train_norms};
}

}  // namespace

void set_adapter(const AdapterSettings& settings, ModelConfig& config) {
  check_adapter_settings(settings);
  if (!settings.wanted()) return;
  if (!settings.folder.empty()) {
    config = with_peft_config(std::move(config), settings.folder);
    config.adapter.dropout = settings.dropout.value_or(config.adapter.dropout);
  } else {
    config.adapter = new_adapter(settings);
    config.trained = {.blocks = false, .embeddings = settings.train_embeddings, .head = settings.train_head};
    if (const auto fault = find_target_fault(config))
      throw Error(ErrorKind::input, {"lora-targets", fault->target}, fault->why);
  }
  if (config.adapter.magnitudes && config.adapter.dropout > 0)
    throw Error(ErrorKind::input, {"lora-dropout", fmt::format("{}", config.adapter.dropout)},
                "adapters with magnitudes (DoRA) do not drop inputs yet; give 0");
  if (config.tied_embeddings && (settings.train_embeddings || settings.train_head))
    throw Error(
        ErrorKind::input, {settings.train_embeddings ? "train-embeddings" : "train-head", "on"},
        "the model's head uses the embeddings' table of tokens, which is not built to be trained besides adapters; leave "
        "it out");
}

}  // namespace pipetrain
