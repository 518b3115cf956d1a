// The end of a run that failed, as this process tells it.
#pragma once

#include <chrono>
#include <optional>

#include "actors/engine/step.hpp"

namespace pipetrain {

class JoinedRun;

// Prints who waited for whom, then the cause. Where another process is gone when the grace is over that the launcher leaves
// between a signal and SIGKILL, the run has not failed: the launcher has ended the other process before the run could save.
// Then the first process that is left says so, in one line. A process that went sooner is the cause all the same, and so is
// every one where no grace is known. `joined` may be null. Returns the exit status.
int tell_failed_run(const RunFailed& failure, const JoinedRun* joined, std::optional<std::chrono::seconds> grace);

}  // namespace pipetrain
