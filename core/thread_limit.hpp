// Finds limits on threads (ulimit -u, or the stacks under ulimit -v) before anything depends on the threads.
#pragma once

namespace pipetrain {

// Throws Error(unavailable) unless this process can start this many more threads; starts and ends them to find out.
// Libraries that start their own threads, such as CAF, abort or hang when only some of them start.
void check_threads(int count);

}  // namespace pipetrain
