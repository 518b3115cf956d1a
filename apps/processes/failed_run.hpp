// Reports the end of a failed run from this process's point of view.
#pragma once

#include <chrono>
#include <optional>

namespace pipetrain {

class JoinedRun;
class RunFailed;

// Prints which stage waited for which, then the cause. If another process disappears when the grace is over that the
// launcher leaves between a signal and SIGKILL, the run has not failed: the launcher ended that process before the run
// could save. Then the first remaining process says so, in one line. A process that disappeared earlier is the cause,
// and so is every one if no grace is known. `joined` may be null. Returns the exit status.
int report_failed_run(const RunFailed& failure, const JoinedRun* joined, std::optional<std::chrono::seconds> grace);

}  // namespace pipetrain
