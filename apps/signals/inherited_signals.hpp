// Remembers which signals were ignored when the process was started (by nohup, or a shell's background job).
#pragma once

namespace pipetrain {

// Returns true if the process ignored this signal, SIGHUP or SIGINT, when it began. The state is that before any library was
// initialised, because UCX installs a handler for SIGHUP. Thread-safe.
bool was_started_ignoring(int number);

}  // namespace pipetrain
