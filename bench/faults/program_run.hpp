// Runs the pipetrain program in the background and keeps its stderr.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipetrain::bench {

class ProgramRun {
 public:
  // words[0] is found on PATH. variables: NAME=VALUE, in addition to this process's. stdout is discarded, stderr goes
  // to the file.
  ProgramRun(const std::vector<std::string>& words, const std::vector<std::string>& variables, std::filesystem::path err);
  ~ProgramRun();  // kills the program
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  // Returns its exit status, -1 if a signal ended it, nothing if it still runs after this time.
  std::optional<int> wait(std::chrono::milliseconds longest);
  bool running() { return !wait(std::chrono::milliseconds(0)); }
  std::string err() const;

 private:
  pid_t process_ = -1;
  std::optional<int> status_;
  std::filesystem::path err_;
};

std::string text_of(const std::filesystem::path& file);
// Runs "ip netns add a" and discards its output. Returns true if it ended with status 0.
bool succeeds(const std::string& command);

}  // namespace pipetrain::bench
