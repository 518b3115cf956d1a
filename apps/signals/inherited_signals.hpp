// Which signals the process was started with as ignored (nohup, a shell's job in the background).
#pragma once

namespace pipetrain {

// As it was before any library was initialised: UCX's gives SIGHUP a handler of its own. SIGHUP and SIGINT only. Thread-safe.
bool was_started_ignoring(int number);

}  // namespace pipetrain
