// Runs the program under test in the background, to be signalled.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "catch.hpp"
#include "paths.hpp"
#include "run_program.hpp"
#include "wait_until.hpp"

namespace pipetrain {

// A run in the background, killed at the end of the scope.
class LiveRun {
 public:
  explicit LiveRun(const std::string& arguments, const std::string& variables = "", const std::string& out = "/dev/null")
      : LiveRun(Launcher{}, arguments, variables, out) {}
  // The words before the program's name, such as "srun -n 2": process() is then the launcher.
  struct Launcher {
    std::string words;
  };
  LiveRun(const Launcher& launcher, const std::string& arguments, const std::string& variables = "",
          const std::string& out = "/dev/null") {
    const std::string command = variables + " exec " + launcher.words + " '" + program_path() + "' " + arguments + " > '" +
                                out + "' 2> '" + err_.string() + "'";
    process_ = ::fork();
    if (process_ == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~LiveRun() {
    if (process_ > 0) end_by(SIGKILL);
  }
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  pid_t process() const { return process_; }
  std::string err() const { return read_file(err_); }
  void wait_until(const std::function<bool()>& reached) const {
    const bool came = test::wait_until(reached);
    INFO(err());
    REQUIRE(came);
  }
  // Returns true if the program has begun and set its handler of this signal.
  bool catches(int number) const {
    const std::filesystem::path process = "/proc/" + std::to_string(process_);
    std::error_code not_yet;
    // Before exec, it is this program.
    if (!std::filesystem::equivalent(process / "exe", program_path(), not_yet)) return false;
    const std::string status = read_file(process / "status"), caught = "\nSigCgt:\t";
    const std::size_t at = status.find(caught);
    return at != std::string::npos && (std::stoull(status.substr(at + caught.size()), nullptr, 16) >> (number - 1) & 1) != 0;
  }
  void signal(int number) const { ::kill(process_, number); }
  // Returns its exit status; -1: a signal ended it.
  int end_by(int number) {
    signal(number);
    return wait();
  }
  // Waits until it ends by itself; returns likewise.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(process_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  TempFolder folder_;
  std::filesystem::path err_ = folder_.path() / "err";
  pid_t process_ = 0;
};

}  // namespace pipetrain
