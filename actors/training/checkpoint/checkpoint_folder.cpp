#include "actors/training/checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/folder_draft.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Skips entries that are certainly no folder, but keeps those that cannot be examined, so that none is overlooked.
std::vector<fs::path> list_checkpoints(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    const fs::file_status status = entry->status(unknown);
    const bool may_be_folder = unknown || !fs::exists(status) || fs::is_directory(status);
    if (checkpoint_step(entry->path()) && may_be_folder) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return checkpoint_step(a) < checkpoint_step(b); });
  return found;
}

}  // namespace

std::optional<std::int64_t> checkpoint_step(const fs::path& path) {
  constexpr std::size_t least_digits = 8, most_digits = 18;
  const std::string name = path.filename().string();
  if (!name.starts_with("step-") || name.size() < 5 + least_digits || name.size() > 5 + most_digits) return {};
  if (!std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  return std::stoll(name.substr(5));
}

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) { return folder / fmt::format("step-{:08}", step); }

std::vector<fs::path> find_checkpoints(const fs::path& folder) {
  std::error_code error;
  auto found = list_checkpoints(folder, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(ErrorKind::input, fmt::format("{}: cannot be searched for checkpoints ({}); check its permissions",
                                              folder.string(), error.message()));
  }
  return found;
}

void remove_old_checkpoints(const fs::path& folder, std::int64_t step, const KeptCheckpoints& kept) {
  if (!kept.newest) return;
  std::int64_t keep = *kept.newest;
  std::error_code ignored;
  auto found = list_checkpoints(folder, ignored);
  std::vector<fs::path> renamed;
  for (; !found.empty(); found.pop_back()) {
    const fs::path& checkpoint = found.back();
    const std::int64_t made = checkpoint_step(checkpoint).value();
    if (made > step) continue;
    if (keep > 0) {
      if (!checkpoint_fault(checkpoint)) --keep;
      continue;
    }
    if (kept.every && made % *kept.every == 0) continue;
    const fs::path unfinished = checkpoint.string() + ".partial";
    std::error_code error;
    fs::remove_all(unfinished, ignored);
    fs::rename(checkpoint, unfinished, error);
    if (!error) renamed.push_back(unfinished);
  }
  if (renamed.empty()) return;
  sync_folder(folder);
  for (const fs::path& path : renamed) fs::remove_all(path, ignored);
}

void remove_unfinished_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& path = entry.path();
    if ((path.extension() == ".partial" || path.extension() == ".old") && checkpoint_step(path.stem()))
      unfinished.push_back(path);
  }
  for (const fs::path& path : unfinished) fs::remove_all(path, ignored);
}

void restore_replaced_checkpoints(const fs::path& folder) {
  try {
    std::vector<fs::path> targets;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = name_replaced(entry.path());
      if (checkpoint_step(name)) targets.push_back(folder / name);
    }
    for (const fs::path& target : targets) settle_replaced(target);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::input, fmt::format("{}: cannot be searched for checkpoints ({}); check its permissions",
                                              folder.string(), error.code().message()));
  }
}

}  // namespace pipetrain
