// A folder that appears whole or not at all: it is written next to its final path as NAME.partial, then renamed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace pipetrain {

// Every failure is an Error that names the folder, of kind input unless a disk fails or has no room. An unpublished
// draft is removed again, with the parents made for it. The next draft removes what a killed run left under the same
// name, after it has restored an older folder that the killed run had moved aside (.NAME.replaced, on file systems that
// cannot exchange two names). Not thread-safe.
class FolderDraft {
 public:
  // Makes the empty draft, and missing parents. A link is followed, so that the rename happens next to the real folder.
  explicit FolderDraft(const std::filesystem::path& target);
  FolderDraft(const FolderDraft&) = delete;
  FolderDraft& operator=(const FolderDraft&) = delete;
  ~FolderDraft();

  const std::filesystem::path& target() const noexcept { return target_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  // Calls write(path()); errors name the final path.
  void fill(const std::function<void(const std::filesystem::path&)>& write) const;

  // Replaces an older folder, if there is one; durable when it returns. The files must have been synced.
  void publish();

 private:
  void create();
  void swap_with_old() const;
  void clean_up() const noexcept;

  std::filesystem::path target_, path_, replaced_;
  std::vector<std::filesystem::path> made_;  // innermost first
  bool published_ = false;
};

// Settles an older folder that a killed run had moved aside to publish a draft: puts it back if its path is free, else
// removes it. Does nothing if there is none. Throws std::filesystem::filesystem_error.
void settle_replaced(const std::filesystem::path& target);
// Returns the NAME in ".NAME.replaced"; empty for other names.
std::string name_replaced(const std::filesystem::path& path);

}  // namespace pipetrain
