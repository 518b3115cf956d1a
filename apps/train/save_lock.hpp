// One live run at a time saves to a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipetrain {

// Holds a --save folder against other runs, on this host and, where its file system has locks across hosts, on others: an
// advisory lock (fcntl, POSIX) on a hidden file there. The kernel lets go of it when the process ends, however that happens, so
// that the empty file which a killed run leaves behind holds nothing. At most one at a time in a process.
class SaveLock {
 public:
  // Makes the folder where it is missing. Throws Error(input) when another run holds it, naming its process where the kernel
  // knows it, or when the folder cannot be written. Where the file system has no locks, nothing is held and `notes` says so.
  SaveLock(const std::filesystem::path& folder, std::vector<std::string>& notes);
  SaveLock(const SaveLock&) = delete;
  SaveLock& operator=(const SaveLock&) = delete;
  // Removes the file, and the folders made if nothing was saved.
  ~SaveLock();

 private:
  bool take(std::vector<std::string>& notes);
  void remove() const noexcept;
  friend void remove_save_lock();

  std::filesystem::path folder_, file_;
  std::vector<std::filesystem::path> made_;  // innermost first
  int descriptor_ = -1;
};

// Removes what the lock of this process would: for who ends the process beside the thread that holds it. That thread waits for
// the end when it takes or leaves a lock afterwards. Async-signal-safe, as SignalSafeLock::lock_for_good() is; where that gives
// up, nothing is removed.
void remove_save_lock();

}  // namespace pipetrain
