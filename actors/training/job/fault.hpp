// Deliberate failures, with which tests see how a run ends: PIPETRAIN_FAULT=rank:step:kind.
#pragma once

#include <cstdint>
#include <string>

namespace pipetrain {

enum class FaultKind {
  raise,           // throw: the rank's worker throws
  exit,            // exit: the process ends at once
  exit_in_update,  // exit-in-update: the process ends when the rank has updated its weights
  stop,            // stop: the process is stopped, as by SIGSTOP
  hang,            // hang: the rank's device never finishes its work
  nan,             // nan: a weight becomes NaN
  out_of_memory,   // oom: an allocation fails
  skip,            // skip: the step's verdict is to skip the optimizer
  slow,            // slow: from this step on every forward and backward of the rank takes 5 ms longer
};

struct Fault {
  int rank = 0;  // index in the mesh
  std::int64_t step = 1;
  FaultKind kind = FaultKind::raise;
};

// Throws Error(input) that gives the expected form of the text.
Fault parse_fault(const std::string& text);

}  // namespace pipetrain
