// Writes a Hugging Face folder.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/folder_draft.hpp"
#include "files/json.hpp"
#include "files/write_error.hpp"
#include "model/weights/companion_files.hpp"
#include "model/weights/expert_stacks.hpp"
#include "model/weights/multimodal_parts.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/tied_head.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

bool is_weights_or_config(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == "config.json" || name == peft_config_file || name.ends_with(".safetensors") ||
         name.ends_with(".safetensors.index.json");
}

// Runs an action on the file system and turns its exception into an Error.
template <class Action>
void guard(const fs::path& folder, Action action) {
  try {
    action();
  } catch (const fs::filesystem_error& error) {
    throw WriteError(
        kind_of_write_failure(error.code().value()), folder,
        fmt::format("cannot be written: {}; {}", error.code().message(), remedy_of_write_failure(error.code().value())));
  }
}

// Throws unless the path is free, or is an empty folder or an older model.
void check_replaceable(const fs::path& folder) {
  const auto refuse = [&](const char* what) { throw Error(ErrorKind::input, fmt::format("{}: {}", folder.string(), what)); };
  guard(folder, [&] {
    if (!fs::exists(folder)) return;
    if (!fs::is_directory(folder)) refuse("cannot be written: a file is in its place; remove it, or give another folder");
    if (!fs::is_empty(folder) && !fs::exists(folder / "config.json") && !fs::exists(folder / peft_config_file)) {
      refuse("is a folder that contains something other than a model; choose another place, or empty it");
    }
  });
}

// Keeps, for example, a tokenizer that a user put next to an older model's weights.
void keep_other_files(const FolderDraft& draft) {
  guard(draft.target(), [&] {
    if (!fs::exists(draft.target())) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(draft.target())) {
      if (is_weights_or_config(entry.path())) continue;
      const fs::path copy = draft.path() / entry.path().filename();
      if (!fs::exists(fs::symlink_status(copy)))
        fs::copy(entry.path(), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    }
  });
}

void write_text(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.sync();
}

std::string config_text(const ModelConfig& config, const ModelFolderOptions& options) {
  Json text;
  if (options.multimodal) {
    text = options.multimodal->config(config, options.type);
  } else {
    ModelConfig saved = config;
    if (!config.mtp.is_trained()) saved.mtp = {};  // the folder has no tensors of it
    text = parse_json(hf_config_text(saved), {"config.json"}, {.values = 0});
    for (const char* key : {"torch_dtype", "dtype"}) text[key] = transformers_name(options.type);
  }
  return text.dump({.indent = 2, .replace = true}) + "\n";
}

// A tensor of the folder: either one of logical_tensors(), or another copy of one (shared_copies()), or several neighbours that
// form a stack, or one of another part of a multimodal model.
struct SavedTensor {
  FileTensor stored;
  std::size_t logical = 0;  // the first
  const MultimodalParts::Part* part = nullptr;
  std::vector<std::pair<StackPlace, Shape>> stacked = {};  // the places of the neighbours, and their shapes
};

// Returns them in the order in which they are written. A tensor of larger elements comes first, so that each begins at a
// multiple of its elements' size.
std::vector<SavedTensor> saved_tensors(const ModelConfig& config, const ModelFolderOptions& options) {
  std::vector<SavedTensor> before, tensors, after;
  const std::vector<SharedCopy> copies = shared_copies(config);
  std::size_t next = 0;
  for (const NamedShape& tensor : logical_tensors(config)) {
    const std::size_t logical = next++;
    if (auto place = place_in_stack(config, tensor.name)) {
      if (tensors.back().stored.name != place->stack) {
        const NamedShape stack{place->stack, stack_shape(config, *place, tensor.shape)};
        tensors.push_back({.stored = file_tensor(stack, options.type), .logical = logical});
      }
      tensors.back().stacked.emplace_back(std::move(*place), tensor.shape);
      continue;
    }
    tensors.push_back({.stored = file_tensor(tensor, options.type), .logical = logical});
    if (options.multimodal) tensors.back().stored.name = options.multimodal->name_in_files(tensor.name);
    for (const SharedCopy& copy : copies)
      if (copy.of == tensor.name)
        tensors.push_back({.stored = file_tensor({copy.name, tensor.shape}, options.type), .logical = logical});
  }
  if (!options.multimodal) return tensors;
  for (const MultimodalParts::Part& part : options.multimodal->parts())
    (part.element_bytes() > bytes_of(options.type) ? before : after).push_back({.stored = part.tensor, .part = &part});
  before.insert(before.end(), tensors.begin(), tensors.end());
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

// Returns the first tensor of each file: each file takes as many tensors as fit, at least one.
std::vector<std::size_t> shard_begins(const std::vector<SavedTensor>& tensors, const ModelFolderOptions& options) {
  std::vector<std::size_t> begins;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = tensors[i].stored.bytes;
    if (begins.empty() || more > options.shard_bytes - std::min(bytes, options.shard_bytes)) {
      begins.push_back(i);
      bytes = 0;
    }
    bytes += more;
  }
  return begins;
}

using Fill = std::function<void(std::size_t, float*)>;

// Writes the values of the stack to `values`.
void fill_stack(const SavedTensor& tensor, std::int64_t experts, const Fill& fill, std::vector<float>& values) {
  std::vector<float> one;
  const std::size_t part = values.size() / static_cast<std::size_t>(experts);
  for (std::size_t i = 0; i < tensor.stacked.size(); ++i) {
    const auto& [place, shape] = tensor.stacked[i];
    one.resize(static_cast<std::size_t>(shape.elements()));
    fill(tensor.logical + i, one.data());
    copy_to_stack(place, shape, one.data(), values.data() + static_cast<std::size_t>(place.expert) * part);
  }
}

void write_file(const fs::path& file, std::span<const SavedTensor> tensors, const Fill& fill,
                const ModelFolderOptions& options) {
  std::vector<FileTensor> stored;
  for (const SavedTensor& tensor : tensors) stored.push_back(tensor.stored);
  SafetensorsWriter writer(file, std::move(stored), options.type);
  std::vector<float> values;
  for (const SavedTensor& tensor : tensors) {
    if (tensor.part) {
      options.multimodal->copy(*tensor.part, writer);
      continue;
    }
    values.resize(tensor.stored.bytes / bytes_of(options.type));
    if (tensor.stacked.empty())
      fill(tensor.logical, values.data());
    else
      fill_stack(tensor, tensor.stored.shape[0], fill, values);
    writer.write(values.data());
  }
  writer.finish();
}

// Writes one file, or shards and their index.
void write_weights(const fs::path& folder, const std::vector<SavedTensor>& tensors, const Fill& fill,
                   const ModelFolderOptions& options) {
  const std::vector<std::size_t> begins = shard_begins(tensors, options);
  if (begins.size() == 1) return write_file(folder / "model.safetensors", tensors, fill, options);
  Json places = Json::object();
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < begins.size(); ++shard) {
    const std::size_t begin = begins[shard], end = shard + 1 < begins.size() ? begins[shard + 1] : tensors.size();
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, begins.size());
    write_file(folder / name, std::span(tensors).subspan(begin, end - begin), fill, options);
    for (std::size_t i = begin; i < end; ++i) {
      places[tensors[i].stored.name] = name;
      total += tensors[i].stored.bytes;
    }
  }
  const Json index = Json::object({{"metadata", Json::object({{"total_size", total}})}, {"weight_map", std::move(places)}});
  write_text(folder / "model.safetensors.index.json", index.dump({.indent = 2, .order = JsonOrder::as_added}) + "\n");
}

}  // namespace

void check_hf_target(const fs::path& folder) {
  check_replaceable(folder);
  const FolderDraft probe(folder);
}

void save_model_folder(const fs::path& folder, const std::vector<fs::path>& companions,
                       const std::function<void(const fs::path&)>& write) {
  check_replaceable(folder);
  FolderDraft draft(folder);
  draft.fill([&](const fs::path& path) {
    write(path);
    for (const fs::path& file : companions) copy_companion(file, path);
  });
  keep_other_files(draft);
  draft.publish();
}

void save_hf_model(const ModelConfig& config, const fs::path& folder, const std::function<void(std::size_t, float*)>& fill,
                   const ModelFolderOptions& options) {
  save_model_folder(folder, options.companions, [&](const fs::path& path) {
    write_text(path / "config.json", config_text(config, options));
    write_weights(path, saved_tensors(config, options), fill, options);
  });
}

}  // namespace pipetrain
