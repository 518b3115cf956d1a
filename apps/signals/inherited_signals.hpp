// Remembers which signals were ignored when the process was started (by nohup, or a shell's background job).
#pragma once

namespace pipetrain {

// Notes the state of SIGHUP and SIGINT. The program calls it before any library is initialised, because UCX installs a
// handler for SIGHUP.
void remember_inherited_signals();
// Returns false for every signal if nothing was noted. Thread-safe.
bool was_started_ignoring(int number);

}  // namespace pipetrain
