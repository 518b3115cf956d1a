#include "model/weights/stored_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "model/families/family.hpp"
#include "model/weights/adapter_in_folder.hpp"
#include "model/weights/llmc_model.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/tied_head.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* of_megatron =
    "is a checkpoint of Megatron-LM, whose tensors are Python objects; turn it into a Hugging Face folder with Megatron Bridge "
    "(AutoBridge.export_ckpt), and begin from that";
constexpr const char* of_deepspeed =
    "is a checkpoint of DeepSpeed, whose tensors are Python objects; turn it into a Hugging Face folder with its "
    "zero_to_fp32.py and transformers' save_pretrained(), and begin from that";
constexpr const char* of_pytorch =
    "has its weights as Python objects; save them as safetensors with transformers' save_pretrained(), and begin from that "
    "folder";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool ends_as_pickle(const std::string& name) {
  return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt");
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    found.push_back(entry->path());
  std::sort(found.begin(), found.end());
  return found;
}

void refuse_foreign(const fs::path& model) {
  if (const auto foreign = foreign_checkpoint(model))
    throw Error(ErrorKind::input, fmt::format("{}: {}", model.string(), *foreign));
}

}  // namespace

std::optional<std::string> foreign_checkpoint(const fs::path& path) {
  const std::string own = path.filename().string();
  if (is_file(path)) {
    if (own == "model_optim_rng.pt") return of_megatron;
    if (ends_as_pickle(own)) return of_pytorch;
    return {};
  }
  if (auto adapter = adapter_in(path)) return adapter;
  const char* pickles = nullptr;
  std::optional<std::string> llmc;
  for (const fs::path& entry : entries_of(path)) {
    const std::string name = entry.filename().string();
    if (name.ends_with(".safetensors")) return {};
    if (name == "latest_checkpointed_iteration.txt" || name == "model_optim_rng.pt" || name.ends_with(".distcp") ||
        is_file(entry / "model_optim_rng.pt"))
      return of_megatron;
    if (name == "zero_to_fp32.py" || name.ends_with("_model_states.pt")) return of_deepspeed;
    if (name.ends_with(".bin") && is_llmc_model(entry))
      llmc = fmt::format("is a folder of llm.c's; begin from one of its model files, such as {}", entry.string());
    if (name.starts_with("pytorch_model") || ends_as_pickle(name)) pickles = of_pytorch;
  }
  if (llmc) return llmc;
  return pickles != nullptr ? std::optional<std::string>(pickles) : std::nullopt;
}

bool names_stored_model(const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (fs::is_directory(status)) return true;
  const auto presets = preset_names();
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) return false;
  // E.g. a circle of links: reading it gives the reason.
  const bool cannot_tell = error && status.type() != fs::file_type::not_found;
  return fs::is_regular_file(status) || cannot_tell;
}

ModelConfig read_stored_config(const fs::path& model) {
  if (is_file(model / "config.json")) return read_hf_config(model);
  refuse_foreign(model);
  return is_file(model) ? read_llmc_config(model) : read_hf_config(model);
}

ModelConfig with_head_of_weights(ModelConfig config, const fs::path& model, std::vector<std::string>& notes) {
  refuse_foreign(model);
  const bool of_folder = !is_file(model) && rank_files(model).empty();
  if (!config.tied_embeddings || !of_folder || !has_own_head(config, model)) return config;
  const FamilyNames& names = spec_of(config.family).names;
  notes.push_back(fmt::format(
      "{}: config.json ties the embeddings, but the weights hold {}, which differs from {}: they are kept apart, as "
      "transformers 5 keeps them, and the model is untied",
      model.string(), names.head, names.embedding));
  config.tied_embeddings = false;
  return config;
}

std::unique_ptr<WeightSource> stored_weights(const ModelConfig& config, const fs::path& model, const WeightReading& reading) {
  refuse_foreign(model);
  if (!is_file(model)) return hf_weights(config, model, reading);
  return llmc_weights(model, reading.new_head ? random_weights(config, *reading.new_head) : nullptr);
}

}  // namespace pipetrain
