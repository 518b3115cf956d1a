// Finds processes by a mark in their environment, so that it also finds those that have lost their parent.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace pipetrain::bench {

class ProcessMark {
 public:
  // Returns NAME=VALUE, for the environment of the processes to be started.
  std::string variable() const { return "PIPETRAIN_TEST_MARK=" + value_; }

  // Returns the running processes that carry the mark and, unless `process` is -1, have this number in a run that
  // `pipetrain launch` has started.
  std::vector<pid_t> processes(int process = -1) const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ostringstream environment;
      environment << std::ifstream(entry.path() / "environ").rdbuf();
      const std::string text = environment.str();
      const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
      if (has(variable()) && (process < 0 || has("PIPETRAIN_LAUNCH=" + std::to_string(process) + "/")))
        found.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return found;
  }
  // Sends a signal to this process of the run. Returns true if there was one.
  bool signal(int process, int number) const {
    const auto found = processes(process);
    return found.size() == 1 && ::kill(found.front(), number) == 0;
  }
  // Returns true if none is left, now or shortly after, because the kernel takes a moment to end them.
  bool all_gone() const {
    for (int tries = 0; tries < 200; ++tries) {
      if (processes().empty()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  void kill_all() const {
    for (const pid_t process : processes()) ::kill(process, SIGKILL);
  }

 private:
  static int next() {
    static std::atomic<int> count = 0;
    return ++count;
  }
  std::string value_ = std::to_string(::getpid()) + "-" + std::to_string(next());
};

}  // namespace pipetrain::bench
