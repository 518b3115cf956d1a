// The pipetrain program in the background, with its words on stderr.
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
  // words[0] is found on PATH. variables: NAME=VALUE, beside this process's. stdout goes nowhere, stderr to the file.
  ProgramRun(const std::vector<std::string>& words, const std::vector<std::string>& variables, std::filesystem::path err);
  ~ProgramRun();  // kills it
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  // Its exit status, -1 where a signal ended it, nothing where it still runs after so long.
  std::optional<int> wait(std::chrono::milliseconds longest);
  bool running() { return !wait(std::chrono::milliseconds(0)); }
  std::string err() const;

 private:
  pid_t process_ = -1;
  std::optional<int> status_;
  std::filesystem::path err_;
};

std::string text_of(const std::filesystem::path& file);
// "ip netns add a" with its output thrown away. Whether it ended with status 0.
bool succeeds(const std::string& command);

}  // namespace pipetrain::bench
