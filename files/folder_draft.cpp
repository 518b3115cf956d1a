#include "files/folder_draft.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/write_error.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_draft(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", path.string(), what));
}

[[noreturn]] void refuse_write(const fs::path& path, const std::string& what, const std::error_code& error) {
  throw WriteError(kind_of_write_failure(error.value()), path,
                   fmt::format("{}: {}; {}", what, error.message(), remedy_of_write_failure(error.value())));
}

// Returns the folder's real path: follows a link, and drops a trailing slash.
fs::path resolved(const fs::path& folder) {
  std::error_code error;
  fs::path real = fs::absolute(folder, error);
  if (!error) real = fs::weakly_canonical(real, error);
  if (error) refuse_write(folder, "cannot be written", error);
  if (!real.has_filename()) real = real.parent_path();
  if (!real.has_filename()) refuse_draft(folder, "is not the name of a folder to write; give one");
  return real;
}

constexpr std::string_view replaced_suffix = ".replaced";

fs::path beside(const fs::path& folder, const std::string& prefix, std::string_view suffix) {
  return folder.parent_path() / (prefix + folder.filename().string() + std::string(suffix));
}

fs::path replaced_path(const fs::path& target) { return beside(target, ".", replaced_suffix); }

}  // namespace

void settle_replaced(const fs::path& target) {
  const fs::path replaced = replaced_path(target);
  if (!fs::exists(fs::symlink_status(replaced))) return;
  if (fs::exists(fs::symlink_status(target))) {
    fs::remove_all(replaced);
  } else {
    fs::rename(replaced, target);
  }
}

std::string name_replaced(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(".") || !name.ends_with(replaced_suffix) || name.size() <= 1 + replaced_suffix.size()) return "";
  return name.substr(1, name.size() - 1 - replaced_suffix.size());
}

FolderDraft::FolderDraft(const fs::path& target)
    : target_(resolved(target)), path_(beside(target_, "", ".partial")), replaced_(replaced_path(target_)) {
  try {
    create();
  } catch (const fs::filesystem_error& error) {
    clean_up();
    refuse_write(target_, "cannot be written", error.code());
  }
}

FolderDraft::~FolderDraft() {
  if (!published_) clean_up();
}

void FolderDraft::create() {
  for (fs::path parent = target_.parent_path(); !fs::exists(parent); parent = parent.parent_path()) made_.push_back(parent);
  fs::create_directories(target_.parent_path());
  settle_replaced(target_);
  fs::remove_all(path_);
  fs::create_directory(path_);
}

void FolderDraft::fill(const std::function<void(const fs::path&)>& write) const {
  try {
    write(path_);
  } catch (const WriteError& error) {
    const fs::path inside = error.path().lexically_relative(path_);
    if (inside.empty() || *inside.begin() == "..") throw;
    throw WriteError(error.kind(), inside == "." ? target_ : target_ / inside, error.reason());
  }
}

void FolderDraft::publish() {
  fill([](const fs::path& folder) { sync_folder(folder); });
  try {
    if (fs::exists(target_)) {
      swap_with_old();
    } else {
      fs::rename(path_, target_);
    }
  } catch (const fs::filesystem_error& error) {
    refuse_write(target_, "cannot be replaced", error.code());
  }
  published_ = true;
  sync_folder(target_.parent_path());
}

void FolderDraft::swap_with_old() const {
  std::error_code ignored;
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(path_, ignored);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    throw fs::filesystem_error("rename", target_, std::error_code(errno, std::generic_category()));
  }
  fs::rename(target_, replaced_);  // a file system that cannot exchange needs two renames
  try {
    fs::rename(path_, target_);
  } catch (...) {
    fs::rename(replaced_, target_, ignored);
    throw;
  }
  fs::remove_all(replaced_, ignored);
}

void FolderDraft::clean_up() const noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  for (const fs::path& parent : made_) fs::remove(parent, ignored);  // removes empty ones only
}

}  // namespace pipetrain
