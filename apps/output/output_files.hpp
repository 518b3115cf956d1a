// Files that a command writes at its end: all of them whole, or none.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace pipetrain {

// Collects files beside their targets, as NAME.PID.partial, and puts them in place together; links that lead to a target stay.
// What was not put in place is removed again; what a killed process left goes when the same file is written next on the same
// host. Streams (apps/output/output_target.hpp) are written to at once.
class OutputFiles {
 public:
  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles();

  // `option`, such as "svg", is named in errors. Throws Error(input) when it cannot be written, Error(aborted) as OutputStream.
  void add(const std::string& option, const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);
  void put_in_place();

 private:
  struct File {
    std::string option;
    std::filesystem::path path, temporary, target;  // path: as it was given
  };
  std::vector<File> files_;
};

// Removes what all OutputFiles of the process have written and not yet put in place: for who ends the process beside the thread
// that writes. No file can be added or put in place afterwards: whoever tries waits for that end. Async-signal-safe, as
// SignalSafeLock::lock_for_good() is; where that gives up, nothing is removed.
void remove_unfinished_outputs();

}  // namespace pipetrain
