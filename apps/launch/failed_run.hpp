// The end of a run that failed, as this process tells it.
#pragma once

#include "actors/engine/step.hpp"

namespace pipetrain {

class JoinedRun;

// Prints who waited for whom, then the cause. Where a signal has asked the run to stop, and another process is gone since, that
// is no failure of the run: whoever sent the signal to all has ended the other one before it was done. Then the first process
// that is left says so, in one line. `joined` may be null. Returns the exit status.
int tell_failed_run(const RunFailed& failure, const JoinedRun* joined);

}  // namespace pipetrain
