// Writes a Hugging Face folder.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/folder_draft.hpp"
#include "files/json.hpp"
#include "model/weights/companion_files.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

bool is_weights_or_config(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
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
    if (!fs::is_empty(folder) && !fs::exists(folder / "config.json")) {
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

std::string config_text(const ModelConfig& config, SavedType type) {
  Json text = parse_json(hf_config_text(config), {"config.json"}, {.values = 0});
  for (const char* key : {"torch_dtype", "dtype"}) text[key] = transformers_name(type);
  return text.dump({.indent = 2}) + "\n";
}

std::uint64_t bytes_in(const NamedShape& tensor, SavedType type) {
  return static_cast<std::uint64_t>(tensor.shape.elements()) * bytes_of(type);
}

// Returns the first tensor of each file: each file takes as many tensors as fit, at least one.
std::vector<std::size_t> shard_begins(const std::vector<NamedShape>& tensors, const ModelFolderOptions& options) {
  std::vector<std::size_t> begins;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = bytes_in(tensors[i], options.type);
    if (begins.empty() || more > options.shard_bytes - std::min(bytes, options.shard_bytes)) {
      begins.push_back(i);
      bytes = 0;
    }
    bytes += more;
  }
  return begins;
}

// Writes one file, or shards and their index.
void write_weights(const fs::path& folder, const std::vector<NamedShape>& tensors,
                   const std::function<void(std::size_t, float*)>& fill, const ModelFolderOptions& options) {
  const std::vector<std::size_t> begins = shard_begins(tensors, options);
  if (begins.size() == 1) {
    write_tensors(folder / "model.safetensors", tensors, fill, options.type);
    return;
  }
  Json places = Json::object();
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < begins.size(); ++shard) {
    const std::size_t begin = begins[shard], end = shard + 1 < begins.size() ? begins[shard + 1] : tensors.size();
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, begins.size());
    const auto at = [&](std::size_t i) { return tensors.begin() + static_cast<std::ptrdiff_t>(i); };
    write_tensors(
        folder / name, {at(begin), at(end)}, [&](std::size_t i, float* out) { fill(begin + i, out); }, options.type);
    for (std::size_t i = begin; i < end; ++i) {
      places[tensors[i].name] = name;
      total += bytes_in(tensors[i], options.type);
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

void save_hf_model(const ModelConfig& config, const fs::path& folder, const std::function<void(std::size_t, float*)>& fill,
                   const ModelFolderOptions& options) {
  check_replaceable(folder);
  FolderDraft draft(folder);
  draft.fill([&](const fs::path& path) {
    write_text(path / "config.json", config_text(config, options.type));
    write_weights(path, logical_tensors(config), fill, options);
    for (const fs::path& file : options.companions) copy_companion(file, path);
  });
  keep_other_files(draft);
  draft.publish();
}

}  // namespace pipetrain
