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
  std::string line;  // empty: nobody needs to be told; a signal has asked the run to stop
};

// `ends` are in order of time. Nothing when all have ended well. In this order of preference: a process that a signal ended or
// stopped, because nobody but the kernel asked for it; what process 0, or else the first, says of a cause of its own; one that
// ended without a word; at last, what they say of one that went away, which is on another host. `name` names a process.
std::optional<LaunchCause> first_cause(const std::vector<ProcessEnd>& ends, const std::function<std::string(int)>& name);

}  // namespace pipetrain
