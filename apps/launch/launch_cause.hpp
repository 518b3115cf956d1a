// Finds why a run of several processes has ended: the first cause among their reports and their ends.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error_kind.hpp"

namespace pipetrain {

struct ProcessEnd {
  int process = 0;
  int status = 0;  // its exit status, unless a signal ended it
  int signal = 0;  // the signal that ended it, or that had stopped it when the run failed; 0: none
  bool stopped = false;
  bool left = false;                 // it has handed over its ranks, and the run goes on
  bool member = false;               // it has been a member of an elastic run
  bool ended_by_launch = false;      // pipetrain launch ended it, because the others had ended
  std::optional<ErrorKind> failure;  // the failure that it reported, with its line
  std::string line;
};

struct LaunchCause {
  int status = 0;  // the exit status of the whole run
  ErrorKind kind = ErrorKind::peer_lost;
  std::string line;            // empty: nothing needs to be reported, because a signal has asked the run to stop
  bool unsaid = false;         // no process has reported it, because it ended them at once
  bool restart_helps = false;  // --restart, if it is not on, is the remedy
};

// True for a process that has failed by itself, not because it misses another one or was asked to stop.
bool has_own_failure(const ProcessEnd& end);

// Removes the ends of processes without which an elastic run has gone on to its end; `ends_run` is true for the ends of the
// others. A member's own failure stays, because the members that follow a process that fails end as those of a complete run do.
void forget_lost(std::vector<ProcessEnd>& ends, bool (*ends_run)(const ProcessEnd&));

// `ends` are in order of time. Returns nothing if all have ended well. It prefers, in this order: a process that a
// signal ended or stopped, because nobody but the kernel asked for it; a cause of its own that process 0, or else the
// first process, reports; a process that ended without a report; finally, reports of a lost process, which is on
// another host. `name` names a process.
//
// `passed_on` is the signal that asked the launch to stop and was passed on to its processes, or 0. Processes that it,
// or another signal that asks to stop, ended have not failed, nor have those that miss them: if nothing else is wrong,
// the cause has that signal's status and no line.
std::optional<LaunchCause> first_cause(const std::vector<ProcessEnd>& ends, int passed_on,
                                       const std::function<std::string(int)>& name);

}  // namespace pipetrain
