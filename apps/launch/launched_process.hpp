// A process that pipetrain launch has started, with its own place in the run.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/launch/launch_cause.hpp"
#include "comm/control/launch_environment.hpp"

namespace pipetrain {

// Not thread-safe. Must be made on a thread that lives as long as this process: when that thread ends, the kernel kills
// the child.
class LaunchedProcess {
 public:
  // Runs the program in this file, or this very program if it is empty; its environment has its place and the
  // run's token. It belongs to this process's group, so that a terminal's signals reach it; its stdin is empty. Throws
  // Error(unavailable).
  LaunchedProcess(const std::string& file, const std::vector<std::string>& words, const LaunchPlace& place,
                  const std::string& token);
  // Ends the process if it has not ended.
  ~LaunchedProcess();
  LaunchedProcess(const LaunchedProcess&) = delete;
  LaunchedProcess& operator=(const LaunchedProcess&) = delete;

  pid_t id() const { return id_; }
  bool joined() const { return joined_; }  // as it has reported
  bool running() const { return id_ > 0; }
  bool stopped() const { return end_.stopped; }
  int report_pipe() const { return pipe_; }
  // Returns the newest membership of which it has reported to be a member, 0 at first, and where others may join the run.
  int membership() const { return membership_; }
  const std::string& door() const { return door_; }
  // Returns how many processes it has asked for since the last call.
  int take_wanted() { return std::exchange(wanted_, 0); }
  // Returns its end. While it has not ended, only signal and stopped are valid.
  const ProcessEnd& end() const { return end_; }

  // Reads its reports and checks whether it has ended or was stopped. Never blocks. Returns true if it has just ended.
  bool look();
  void signal(int number) const;
  // Sends a signal that ends it, because the others have ended.
  void end_by(int number);

 private:
  struct Start;
  void start(Start how);
  [[noreturn]] static void become(const Start& how, char* const* words, char* const* environment, pid_t parent,
                                  const sigset_t& mask);
  void read_reports();
  void note_status(int status);

  pid_t id_ = 0;
  int pipe_ = -1;
  std::string unread_;  // the beginning of a line
  bool joined_ = false;
  int membership_ = 0, wanted_ = 0;
  std::string door_;
  ProcessEnd end_;
};

}  // namespace pipetrain
