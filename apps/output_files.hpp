// Files that a command writes at its end: all of them whole, or none.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "apps/option_values.hpp"

namespace pipetrain {

// The file that this option names, if it is given and can be made or written: checked without touching it. Throws Error(input).
std::optional<std::filesystem::path> output_file(const OptionValues& values, const std::string& name);

// Throws Error(input) where the file that this option names is not there or is a folder.
void check_input_file(const OptionValues& values, const std::string& name);
// Throws Error(input) when two of the options `outputs` name one place, or one of them a file that one of `inputs` reads. What
// is neither a file nor a folder, such as /dev/null, may be named twice.
void refuse_shared_files(const OptionValues& values, const std::vector<std::string>& outputs,
                         const std::vector<std::string>& inputs);

// Collects files beside their targets, as NAME.PID.partial, and puts them in place together. What was not put in place is
// removed again; what a killed process left goes when the same file is written next on the same host.
class OutputFiles {
 public:
  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles();

  // `option`, such as "svg", is named in errors. Throws Error(input) when it cannot be written.
  void add(const std::string& option, const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);
  void put_in_place();

 private:
  struct File {
    std::string option;
    std::filesystem::path temporary, target;
  };
  std::vector<File> files_;
};

// Removes what all OutputFiles of the process have written and not yet put in place: for who ends the process beside the thread
// that writes. No file can be added or put in place afterwards: whoever tries waits for that end. Async-signal-safe, as
// SignalSafeLock::lock_for_good() is; where that gives up, nothing is removed.
void remove_unfinished_outputs();

}  // namespace pipetrain
