// Files that a command writes at its end: either all of them whole, or none.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace pipetrain {

// Collects files next to their targets, as NAME.PID.partial, and renames all of them at the end; links that lead to a
// target stay. Files that were not renamed are removed again; those of a killed process are removed when the same file
// is next written on the same host. Streams (apps/output/output_target.hpp) are written to at once.
class OutputFiles {
 public:
  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles();

  // `option`, such as "svg", is named in errors. Throws Error(input) if the file cannot be written, Error(aborted) as
  // OutputStream.
  void add(const std::string& option, const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);
  void put_in_place();

 private:
  struct File {
    std::string option;
    std::filesystem::path path, temporary, target;  // path: as it was given
  };
  std::vector<File> files_;
};

// Removes all files that OutputFiles of this process have written but not yet renamed. It is for a thread or handler
// that ends the process while another thread writes. No file can be added or renamed afterwards: a thread that tries
// waits for the end. Async-signal-safe, as SignalSafeLock::lock_for_good() is; if that gives up, nothing is removed.
void remove_unfinished_outputs();

}  // namespace pipetrain
