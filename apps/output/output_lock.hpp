// A lock on an output, so that only one live run at a time writes to it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/output/output_target.hpp"

namespace pipetrain {

// Protects an output of a run against other runs, on this host and, if its file system has locks across hosts, on
// others: a lock (core/file_lock.hpp) on a hidden file in the output folder, or next to the output file, that names the
// process. The kernel releases it when the process ends, however that happens, so the file that a killed run leaves
// locks nothing. At most most_output_locks exist at a time in a process, each for another output. Not thread-safe.
class OutputLock {
 public:
  // `option`, such as "save", is named in errors. Makes the folder if it is missing. Throws Error(input) if another run
  // holds the lock, naming its process and host, or if the folder cannot be written. If the file system
  // has no locks, nothing is locked and `notes` says so.
  static std::unique_ptr<OutputLock> of_folder(const std::string& option, const std::filesystem::path& folder,
                                               std::vector<std::string>& notes);
  // Locks one file, which must not be a stream, in an existing folder.
  static std::unique_ptr<OutputLock> of_file(const std::string& option, const OutputTarget& target,
                                             std::vector<std::string>& notes);

  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;
  // Removes the lock's file, unless another run owns it by now, and the folders made if nothing was written.
  ~OutputLock();

  // Throws Error(unavailable) if the folder or the lock's file was removed or replaced, so that another run may hold a
  // lock on the output.
  void check() const;

 private:
  struct LockedOutput {
    std::string option;
    std::filesystem::path shown;         // as the user wrote it
    std::filesystem::path folder, file;  // the lock's
    const char* done_there;              // "saving": the activity of the run that holds the lock
    const char* other;                   // "folder": the user should choose another one
  };
  OutputLock(LockedOutput output, std::vector<std::string>& notes);
  bool take(std::vector<std::string>& notes);
  void remove() const noexcept;
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_write(const std::string& reason, int error) const;
  friend void remove_output_locks();

  LockedOutput output_;
  std::vector<std::filesystem::path> made_;  // innermost first
  int descriptor_ = -1;
};

// True while a run holds the lock of its output folder, or of its output file. On a file system without locks every
// existing lock seems to be held. A run that takes the lock at the same instant is refused, so do not ask again and again.
bool is_folder_in_use(const std::filesystem::path& folder);
bool is_file_in_use(const std::filesystem::path& file);

inline constexpr int most_output_locks = 8;

// Removes the files that the locks of this process would remove. It is for a thread or handler that ends the process
// while another thread holds the locks. That thread waits for the end if it takes or releases a lock afterwards.
// Async-signal-safe, as SignalSafeLock::lock_for_good() is; if that gives up, nothing is removed.
void remove_output_locks();

}  // namespace pipetrain
