// Why a run of several processes has ended: the first cause among what all of them tell, or what became of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace pipetrain {

// How one process ended.
struct ProcessEnd {
  int process = 0;
  int status = 0;  // its exit status, where no signal ended it
  int signal = 0;  // that ended it, or that it was stopped by when the run failed; 0: none
  bool stopped = false;
  bool left_behind = false;          // pipetrain launch ended it, because the others had ended
  std::optional<ErrorKind> failure;  // that it told, with its line
  std::string line;
};

struct LaunchCause {
  int status = 0;  // the exit status of the whole run
  ErrorKind kind = ErrorKind::peer_lost;
  std::string line;            // empty: nobody needs to be told; a signal has asked the run to stop
  bool unsaid = false;         // and no process has said so, because it ended them at once
  bool restart_helps = false;  // --restart is what to do about it, where it is not on
};

// `ends` are in order of time. Nothing when all have ended well. In this order of preference: a process that a signal ended or
// stopped, because nobody but the kernel asked for it; what process 0, or else the first, says of a cause of its own; one that
// ended without a word; at last, what they say of one that went away, which is on another host. `name` names a process.
//
// `passed_on` is the signal that asked the launch to stop and went on to its processes, 0 where none did. Those that it, or
// another one that asks to stop, ended have not failed, nor have those who miss them: where nothing else is wrong, the cause
// has that signal's status and no line.
std::optional<LaunchCause> first_cause(const std::vector<ProcessEnd>& ends, int passed_on,
                                       const std::function<std::string(int)>& name);

}  // namespace pipetrain
