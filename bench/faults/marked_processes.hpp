// Finds processes by a mark in their environment, so that it also finds those that have lost their parent.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace pipetrain::bench {

struct MarkedProcess {
  pid_t id = -1;
  int number = -1;  // in the run that `pipetrain launch` has started; -1: another process
};

class ProcessMark {
 public:
  // Returns NAME=VALUE, for the environment of the processes to be started.
  std::string variable() const { return "PIPETRAIN_TEST_MARK=" + value_; }

  // Returns the running processes that carry the mark and, unless `process` is -1, have this number in a run that
  // `pipetrain launch` has started.
  std::vector<pid_t> processes(int process = -1) const {
    std::vector<pid_t> found;
    for (const MarkedProcess& marked : all())
      if (process < 0 || process == marked.number) found.push_back(marked.id);
    return found;
  }
  // Returns those that `pipetrain launch` has started, by their numbers.
  std::vector<MarkedProcess> launched() const {
    std::vector<MarkedProcess> found = all();
    std::erase_if(found, [](const MarkedProcess& marked) { return marked.number < 0; });
    std::sort(found.begin(), found.end(),
              [](const MarkedProcess& left, const MarkedProcess& right) { return left.number < right.number; });
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
  std::vector<MarkedProcess> all() const {
    std::vector<MarkedProcess> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ostringstream environment;
      environment << std::ifstream(entry.path() / "environ").rdbuf();
      const std::string text = environment.str(), launch = "PIPETRAIN_LAUNCH=";
      // The end of the variable is compared too, because other marks begin with this one.
      if (text.find(variable() + '\0') == std::string::npos) continue;
      const std::size_t at = text.find(launch);
      const int number = at == std::string::npos ? -1 : std::atoi(text.c_str() + at + launch.size());
      found.push_back({static_cast<pid_t>(std::stol(name)), number});
    }
    return found;
  }
  static int next() {
    static std::atomic<int> count = 0;
    return ++count;
  }
  std::string value_ = std::to_string(::getpid()) + "-" + std::to_string(next());
};

}  // namespace pipetrain::bench
