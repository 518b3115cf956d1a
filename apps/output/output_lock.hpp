// One live run at a time writes to a place.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/output/output_target.hpp"

namespace pipetrain {

// Holds an output of a run against other runs, on this host and, where its file system has locks across hosts, on others: an
// advisory lock (fcntl, POSIX) on a hidden file in the folder that is written, or beside the file. The kernel lets go of it
// when the process ends, however that happens, so that the empty file which a killed run leaves behind holds nothing. At most
// most_output_locks at a time in a process, each of another place. Not thread-safe.
class OutputLock {
 public:
  // `option`, such as "save", is named in errors. Makes the folder where it is missing. Throws Error(input) when another run
  // holds it, naming its process where the kernel knows it, or when the folder cannot be written. Where the file system has no
  // locks, nothing is held and `notes` says so.
  static std::unique_ptr<OutputLock> of_folder(const std::string& option, const std::filesystem::path& folder,
                                               std::vector<std::string>& notes);
  // The same for one file, which is no stream, in a folder that is there.
  static std::unique_ptr<OutputLock> of_file(const std::string& option, const OutputTarget& target,
                                             std::vector<std::string>& notes);

  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;
  // Removes the lock's file, unless it is another run's by now, and the folders made if nothing was written.
  ~OutputLock();

  // Throws Error(unavailable) where the folder or the lock's file was removed or replaced, so that another run may hold the
  // place.
  void check() const;

 private:
  struct Place {
    std::string option;
    std::filesystem::path shown;         // as the option has it
    std::filesystem::path folder, file;  // of the lock
    const char* done_there;              // "saving", by the run that holds it
    const char* other;                   // "folder", to be given instead
  };
  OutputLock(Place place, std::vector<std::string>& notes);
  bool take(std::vector<std::string>& notes);
  bool is_there() const noexcept;
  void remove() const noexcept;
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_write(const std::string& reason, int error) const;
  friend void remove_output_locks();

  Place place_;
  std::vector<std::filesystem::path> made_;  // innermost first
  int descriptor_ = -1;
};

inline constexpr int most_output_locks = 8;

// Removes what the locks of this process would: for who ends the process beside the thread that holds them. That thread waits
// for the end when it takes or leaves a lock afterwards. Async-signal-safe, as SignalSafeLock::lock_for_good() is; where that
// gives up, nothing is removed.
void remove_output_locks();

enum class OpenFileLock { held, held_by_another, unavailable };

// Of an open file that a run adds to (open for writing): held until the descriptor is closed, whatever else opens and closes
// the file meanwhile (fcntl, open file description). Unavailable, with errno, where the file system has no locks.
OpenFileLock lock_open_file(int descriptor) noexcept;

}  // namespace pipetrain
