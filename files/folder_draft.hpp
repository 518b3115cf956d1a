// A folder that appears whole or not at all: written beside its final place as NAME.partial, then renamed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace pipetrain {

// Every failure is an Error that names the folder, of kind input but where a disk fails or has no room. What was not published
// is removed again, with the parents made for it; what a killed run left under the same name goes when the next draft begins,
// and an older folder that it had moved aside (.NAME.replaced, on file systems that cannot exchange two names) comes back
// first. Not thread-safe.
class FolderDraft {
 public:
  // Makes the empty draft, and parents that are missing. A link is followed, so that the rename happens beside the real folder.
  explicit FolderDraft(const std::filesystem::path& target);
  FolderDraft(const FolderDraft&) = delete;
  FolderDraft& operator=(const FolderDraft&) = delete;
  ~FolderDraft();

  const std::filesystem::path& target() const noexcept { return target_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  // Calls write(path()); errors name the path that it would have had.
  void fill(const std::function<void(const std::filesystem::path&)>& write) const;

  // In place of an older folder, if there is one; durable when it returns. The files must have been synced.
  void publish();

 private:
  void create();
  void swap_with_old() const;
  void clean_up() const noexcept;

  std::filesystem::path target_, path_, replaced_;
  std::vector<std::filesystem::path> made_;  // innermost first
  bool published_ = false;
};

// The older folder that a killed run had moved aside to publish a draft in its place: put back where nothing took its place,
// else removed. Does nothing where there is none. Throws std::filesystem::filesystem_error.
void settle_replaced(const std::filesystem::path& target);
// The NAME in ".NAME.replaced"; empty for other names.
std::string name_replaced(const std::filesystem::path& path);

}  // namespace pipetrain
