// Writing a Hugging Face folder.
#include <fmt/format.h>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/folder_draft.hpp"
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
    throw WriteError(kind_of_write_failure(error.code().value()), folder,
                     fmt::format("cannot be written: {}", error.code().message()));
  }
}

// Throws unless there is nothing here, an empty folder, or an older model.
void check_replaceable(const fs::path& folder) {
  const auto refuse = [&](const char* what) { throw Error(ErrorKind::input, fmt::format("{}: {}", folder.string(), what)); };
  guard(folder, [&] {
    if (!fs::exists(folder)) return;
    if (!fs::is_directory(folder)) refuse("cannot be written: a file is in its place");
    if (!fs::is_empty(folder) && !fs::exists(folder / "config.json")) {
      refuse("is a folder with other things in it than a model; choose another place, or empty it");
    }
  });
}

// A tokenizer, say, that a user put beside an older model's weights.
void keep_other_files(const FolderDraft& draft) {
  guard(draft.target(), [&] {
    if (!fs::exists(draft.target())) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(draft.target())) {
      if (is_weights_or_config(entry.path())) continue;
      fs::copy(entry.path(), draft.path() / entry.path().filename(),
               fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    }
  });
}

}  // namespace

void check_hf_target(const fs::path& folder) {
  check_replaceable(folder);
  const FolderDraft probe(folder);
}

SafetensorsChecksums write_hf_model(const ModelConfig& config, const fs::path& folder,
                                    const std::function<void(std::size_t, float*)>& fill) {
  const std::string text = hf_config_text(config);
  OutputFile config_file(folder / "config.json");
  config_file.write(text.data(), text.size());
  config_file.sync();
  return write_tensors(folder / "model.safetensors", logical_tensors(config), fill);
}

void save_hf_model(const ModelConfig& config, const fs::path& folder, const std::function<void(std::size_t, float*)>& fill) {
  check_replaceable(folder);
  FolderDraft draft(folder);
  draft.fill([&](const fs::path& path) { write_hf_model(config, path, fill); });
  keep_other_files(draft);
  draft.publish();
}

}  // namespace pipetrain
