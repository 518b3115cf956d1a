// A program that answers lines with lines, started by a benchmark.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace pipetrain::bench {

class ChildProcess {
 public:
  // Runs arguments[0], found on PATH; it inherits stderr.
  explicit ChildProcess(const std::vector<std::string>& arguments) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      for (const int end : {to[0], to[1], from[0], from[1]}) close(end);
      std::vector<char*> words;
      for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
      words.push_back(nullptr);
      execvp(words[0], words.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    to_ = fdopen(to[1], "w");
    from_ = fdopen(from[0], "r");
  }
  ~ChildProcess() {
    if (to_ != nullptr) std::fclose(to_);  // the child sees the end of its input and ends
    if (from_ != nullptr) std::fclose(from_);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void write_line(const std::string& line) {
    if (to_ == nullptr) return;
    std::fputs((line + '\n').c_str(), to_);
    std::fflush(to_);
  }
  // Returns its next line without the newline; nothing if it has ended.
  std::optional<std::string> read_line() {
    std::array<char, 4096> buffer;
    if (from_ == nullptr || std::fgets(buffer.data(), buffer.size(), from_) == nullptr) return std::nullopt;
    std::string line = buffer.data();
    if (!line.empty() && line.back() == '\n') line.pop_back();
    return line;
  }

 private:
  pid_t child_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace pipetrain::bench
