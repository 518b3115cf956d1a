// Writing a Hugging Face folder so that it appears whole or not at all.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <cerrno>
#include <system_error>

#include "core/error.hpp"
#include "model/safetensors.hpp"
#include "model/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", path.string(), what));
}

// Where the folder really is: without a trailing slash, a link followed, so that renames happen beside it.
fs::path resolved(const fs::path& folder) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(fs::absolute(folder), error);
  if (error) refuse(folder, fmt::format("cannot be written: {}", error.message()));
  if (!real.has_filename()) real = real.parent_path();
  if (!real.has_filename()) refuse(folder, "is not the name of a folder to write");
  return real;
}

fs::path beside(const fs::path& folder, const char* suffix) {
  return folder.parent_path() / (folder.filename().string() + suffix);
}

bool is_weights_or_config(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

// Runs an action on the file system and turns its exception into an Error.
template <class Action>
void guard(const fs::path& folder, const char* what, Action action) {
  try {
    action();
  } catch (const fs::filesystem_error& error) {
    refuse(folder, fmt::format("{}: {}", what, error.code().message()));
  }
}

// Throws unless there is nothing here, an empty folder, or an older model.
void check_replaceable(const fs::path& folder) {
  guard(folder, "cannot be written", [&] {
    if (!fs::exists(folder)) return;
    if (!fs::is_directory(folder)) refuse(folder, "cannot be written: a file is in its place");
    if (!fs::is_empty(folder) && !fs::exists(folder / "config.json")) {
      refuse(folder, "is a folder with other things in it than a model; choose another place, or empty it");
    }
  });
}

// A folder being written beside its final place. What was not published is removed, with the parents made for it.
class Draft {
 public:
  explicit Draft(const fs::path& target) : target_(target), path_(beside(target, ".partial")) {
    try {
      guard(target, "cannot be written", [this] { create(); });
    } catch (...) {
      clean_up();
      throw;
    }
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    if (!published_) clean_up();
  }

  const fs::path& path() const noexcept { return path_; }

  void publish() {
    guard(target_, "cannot be replaced", [this] {
      const bool replaces = fs::exists(target_);
      if (replaces) keep_other_files();
      sync_folder(path_);
      if (replaces) {
        swap_with_old();
      } else {
        fs::rename(path_, target_);
      }
    });
    published_ = true;
    sync_folder(target_.parent_path());
  }

 private:
  void create() {
    for (fs::path parent = target_.parent_path(); !fs::exists(parent); parent = parent.parent_path()) made_.push_back(parent);
    fs::create_directories(target_.parent_path());
    fs::remove_all(path_);  // left by a run that was killed
    fs::create_directory(path_);
  }

  // A tokenizer, say, that a user put beside an older model's weights.
  void keep_other_files() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(target_)) {
      if (is_weights_or_config(entry.path())) continue;
      fs::copy(entry.path(), path_ / entry.path().filename(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    }
  }

  void swap_with_old() const {
    std::error_code ignored;
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
      fs::remove_all(path_, ignored);
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) {
      throw fs::filesystem_error("rename", target_, std::error_code(errno, std::generic_category()));
    }
    const fs::path old = beside(target_, ".old");  // a file system without exchange: two renames
    fs::remove_all(old);
    fs::rename(target_, old);
    try {
      fs::rename(path_, target_);
    } catch (...) {
      fs::rename(old, target_, ignored);
      throw;
    }
    fs::remove_all(old, ignored);
  }

  void clean_up() const noexcept {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    for (const fs::path& parent : made_) fs::remove(parent, ignored);  // only empty ones go
  }

  fs::path target_, path_;
  std::vector<fs::path> made_;  // innermost first
  bool published_ = false;
};

}  // namespace

void check_hf_target(const fs::path& folder) {
  const fs::path target = resolved(folder);
  check_replaceable(target);
  const Draft probe(target);
}

void save_hf_model(const ModelConfig& config, const fs::path& folder, const std::function<void(std::size_t, float*)>& fill) {
  const fs::path target = resolved(folder);
  check_replaceable(target);
  Draft draft(target);

  const std::string text = hf_config_text(config);
  OutputFile config_file(draft.path() / "config.json");
  config_file.write(text.data(), text.size());
  config_file.sync();

  const std::vector<NamedShape> tensors = logical_tensors(config);
  SafetensorsWriter writer(draft.path() / "model.safetensors", tensors);
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    values.resize(static_cast<std::size_t>(tensors[i].shape.elements()));
    fill(i, values.data());
    writer.write(values.data());
  }
  writer.finish();
  draft.publish();
}

}  // namespace pipetrain
