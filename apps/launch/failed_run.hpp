// The end of a run that failed, as this process tells it.
#pragma once

#include "actors/engine/step.hpp"

namespace pipetrain {

class JoinedRun;

// Prints who waited for whom, then the cause. Where another process is gone a while after a signal has asked the run to stop,
// the run has not failed: whoever sent the signal to all has ended the other one before it was done. Then the first process
// that is left says so, in one line. A process that went before or at that time is the cause all the same: launchers send
// SIGTERM to the others then. `joined` may be null. Returns the exit status.
int tell_failed_run(const RunFailed& failure, const JoinedRun* joined);

}  // namespace pipetrain
