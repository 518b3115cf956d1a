// One attempt of pipetrain launch: starts its processes and waits until none is left.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/launch/launch_cause.hpp"
#include "apps/launch/launched_process.hpp"
#include "apps/output/process_label.hpp"

namespace pipetrain {

// The settings that all processes of an attempt get.
struct LaunchPlan {
  std::string file;                // of the program that they run; empty: this program
  std::vector<std::string> words;  // {"pipetrain", "train", "--pp", "2"}
  std::string host;                // of process 0
  std::uint16_t port = 0;
  std::string token;
  int first = 0, count = 1;  // on this host
  int processes = 1;         // in the run
  int attempt = 0;
  bool continues = false;       // the run goes on when processes of it are lost
  int restarted_processes = 0;  // for lost ones, at most
};

// One at a time. From the first attempt on, signals that stop this process or ask which stage waits for which go to the
// processes instead; stop_signal() has the signal that asked to stop between attempts.
class LaunchAttempt {
 public:
  LaunchAttempt(const LaunchPlan& plan, const ProcessLabels& labels);
  ~LaunchAttempt();
  LaunchAttempt(const LaunchAttempt&) = delete;
  LaunchAttempt& operator=(const LaunchAttempt&) = delete;

  // Blocks until all processes have ended; those that remain after the end of the run are ended. Returns the first
  // cause, or nothing if all went well.
  std::optional<LaunchCause> wait();

 private:
  using Clock = std::chrono::steady_clock;
  void wait_for_news() const;
  bool look();  // returns whether any runs
  void end_remaining();
  void start(const LaunchPlace& place, const std::vector<std::string>& words);
  void note_end(const LaunchedProcess& process, bool joins);
  void start_joining();
  bool all_joined() const;
  bool ended_badly() const;

  const ProcessLabels& labels_;
  const bool foreign_;  // they run another program, which does not report that it has joined, and may end in any order
  const LaunchPlan plan_;
  // The newest membership of which a process has reported to be a member, and where others may join it.
  int membership_ = 0;
  std::string door_;
  int wanted_ = 0;              // processes that the run asks for
  int restarted_ = 0;           // processes that were started for lost ones, or will be
  std::vector<int> lost_from_;  // the memberships that have lost a process for which another one is to be started
  std::vector<std::unique_ptr<LaunchedProcess>> processes_;
  std::vector<ProcessEnd> ends_;           // in order of time
  std::optional<Clock::time_point> over_;  // when the run ended for one of them
};

}  // namespace pipetrain
