// Remembers which signals were ignored when the process was started (by nohup, or a shell's background job).
#pragma once

namespace pipetrain {

// Returns the state before any library was initialised, because UCX installs a handler for SIGHUP. SIGHUP and SIGINT only.
// Thread-safe.
bool was_started_ignoring(int number);

}  // namespace pipetrain
