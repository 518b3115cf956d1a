// Finds limits on threads (ulimit -u, or the stacks under ulimit -v) before anything depends on the threads.
#pragma once

namespace pipetrain {

// Throws Error(unavailable) unless this process can start so many more threads, by starting and ending them. Libraries that
// start threads of their own, CAF among them, end the process or hang when only some of theirs start.
void check_threads(int count);

}  // namespace pipetrain
